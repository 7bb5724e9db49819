// Completes package-lock.json with the packages of other platforms.
//
// npm writes down only those optional packages that the registry at hand offers, and `npm ci`
// then refuses the lock file. The names of such packages say what they are for.
import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(file, 'utf8'));
const systems = [
  'aix',
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
];
const processors = [
  'arm',
  'arm64',
  'ia32',
  'loong64',
  'mips64el',
  'ppc64',
  'riscv64',
  's390x',
  'wasm32',
  'x64',
];
const libraries = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl' };

for (const [path, entry] of Object.entries({ ...lock.packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`;
    if (lock.packages[place] || lock.packages[`${path}/${place}`]) continue;
    const parts = name === 'fsevents' ? ['darwin'] : name.split(/[/-]/);
    const os = parts.filter((p) => systems.includes(p));
    const cpu = parts.filter((p) => processors.includes(p));
    const libc = parts.flatMap((p) => libraries[p] ?? []);
    if (os.length + cpu.length === 0) throw new Error(`for which platform is ${name}?`);
    lock.packages[place] = {
      version: version.replace(/^[~^]/, ''),
      ...(cpu.length && { cpu }),
      ...(entry.dev && { dev: true }),
      ...(os.includes('linux') && libc.length && { libc }),
      optional: true,
      ...(os.length && { os }),
    };
  }
}
const byPath = ([a], [b]) => (a < b ? -1 : 1);
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(byPath));
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
