import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

const out = process.env.MUSTER_CONSOLE_OUT ?? 'dist';

/** Writes each file a second time, compressed: the server sends what a browser takes. */
function compressed(): Plugin {
  const walk = (dir: string): string[] =>
    readdirSync(dir).flatMap((name) => {
      const path = join(dir, name);
      return statSync(path).isDirectory() ? walk(path) : [path];
    });
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      for (const file of walk(out)) {
        if (!file.endsWith('.gz')) writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compressed()],
  build: {
    outDir: out,
    emptyOutDir: true,
    assetsDir: 'ui',
    // Nothing inline: the page's security policy allows files of this server only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(
      ['/v1', '/openapi.json', '/healthz'].map((p) => [
        p,
        process.env.MUSTER_SERVER ?? 'http://127.0.0.1:7070',
      ]),
    ),
  },
});
