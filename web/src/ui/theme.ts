import { useSyncExternalStore } from 'react';
import type { Theme } from '../map/colors';

const KEY = 'muster.theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function now(): Theme {
  const chosen = localStorage.getItem(KEY);
  if (chosen === 'dark' || chosen === 'light') return chosen;
  return dark.matches ? 'dark' : 'light';
}

function show() {
  document.documentElement.dataset.theme = now();
  for (const l of listeners) l();
}

dark.addEventListener('change', show);
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
