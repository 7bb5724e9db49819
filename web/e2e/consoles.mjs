// So many open consoles, as the server sees them: node e2e/consoles.mjs N SECONDS PID [--json]
// Says what processor time the server used without and with them, and what they received.
import { readFileSync } from 'node:fs';
import { base, token } from './browser.mjs';

const json = process.argv.includes('--json');
const words = process.argv.slice(2).filter((a) => !a.startsWith('--'));
const [count = 100, seconds = 20, pid] = words.map(Number);
const ticks = () => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return Number(fields[11]) + Number(fields[12]);
};
const share = async () => {
  const [t, at] = [ticks(), Date.now()];
  await new Promise((r) => setTimeout(r, seconds * 1000));
  return ((ticks() - t) / 100 / ((Date.now() - at) / 1000)) * 100;
};
const before = await share();
let bytes = 0;
const stop = new AbortController();
for (let i = 0; i < count; i++) {
  const response = await fetch(`${base}/v1/console/frames`, {
    headers: { Authorization: `Bearer ${token}` },
    signal: stop.signal,
  });
  if (!response.ok) throw new Error(`stream ${i}: ${response.status}`);
  const read = async () => {
    for await (const part of response.body) bytes += part.length;
  };
  read().catch(() => {});
}
await new Promise((r) => setTimeout(r, 3000));
bytes = 0;
const during = await share();
console.log(`without: ${before.toFixed(1)} % of a core; with ${count} consoles: ${during.toFixed(1)} %`);
console.log(`each received ${(bytes / count / seconds / 1000).toFixed(2)} kB/s`);
// A change takes 20 bytes of a frame; its head is of no matter.
const each = bytes / count / seconds;
if (json)
  console.log(
    JSON.stringify({
      cores: Math.max(0, during - before) / 100,
      kb_per_s: each / 1000,
      changes_per_s: each / 20,
    }),
  );
stop.abort();
process.exit(0);
