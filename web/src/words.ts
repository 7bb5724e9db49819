/** Which remedies do what by themselves: [mode, actions]. */
export function automation(modes: Record<string, unknown>): [string, string][] {
  const by = new Map<string, string[]>();
  for (const [action, mode] of Object.entries(modes)) {
    const word = String(mode).replaceAll('_', ' ');
    by.set(word, [...(by.get(word) ?? []), action.replaceAll('_', ' ')]);
  }
  return [...by].map(([mode, actions]) => [mode, actions.join(', ')]);
}
