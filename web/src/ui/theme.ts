import { useSyncExternalStore } from 'react';
import type { Theme } from '../map/colors';
import { watchBrand, worn } from './brand';

const KEY = 'muster.theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function now(): Theme {
  const chosen = localStorage.getItem(KEY);
  if (chosen === 'dark' || chosen === 'light') return chosen;
  return dark.matches ? 'dark' : 'light';
}

function show() {
  const theme = now();
  const root = document.documentElement;
  root.dataset.theme = theme;
  const own = worn()[theme];
  for (const [name, colour] of [
    ['--accent', own?.accent],
    ['--accent-text', own?.on_accent],
  ] as const) {
    if (colour) root.style.setProperty(name, colour);
    else root.style.removeProperty(name);
  }
  for (const l of listeners) l();
}

dark.addEventListener('change', show);
watchBrand(show);
show();

export function choose(theme: Theme) {
  localStorage.setItem(KEY, theme);
  show();
}

export function useTheme(): Theme {
  return useSyncExternalStore((l) => {
    listeners.add(l);
    return () => listeners.delete(l);
  }, now);
}
