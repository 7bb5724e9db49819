import { useSyncExternalStore } from 'react';
import type { Schemas } from '../api/client';

export type Brand = Schemas['Brand'];

const OWN: Brand = { name: 'Muster', logo: null, link: null, dark: null, light: null };
let brand = OWN;
const listeners = new Set<() => void>();

/** How long the first picture waits for the brand; it is a small answer of the same server. */
const PATIENCE = 1500;

/** Reads what the console wears; its own name stays when that cannot be had. */
export async function wear(): Promise<void> {
  const read = fetch('/v1/brand')
    .then(async (answer) => {
      if (answer.ok) put({ ...OWN, ...((await answer.json()) as Brand) });
    })
    // A server that does not answer shows so soon enough.
    .catch(() => {});
  await Promise.race([read, new Promise((r) => setTimeout(r, PATIENCE))]);
}

function put(next: Brand) {
  brand = next;
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (icon && brand.logo) {
    icon.removeAttribute('type');
    icon.href = logo(brand) ?? icon.href;
  }
  document.title = brand.name;
  for (const l of listeners) l();
}

/** Where the logo is; its address changes with it. */
export function logo(b: Brand): string | null {
  return b.logo ? `/v1/brand/logo?v=${b.logo}` : null;
}

export const worn = () => brand;

export function watchBrand(listener: () => void) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

export function useBrand(): Brand {
  return useSyncExternalStore(watchBrand, worn);
}
