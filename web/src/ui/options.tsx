/** Words as options of a select, with one that is taken and that they may lack. */
export function Options({ of, taken = '' }: { of: readonly string[] | undefined; taken?: string }) {
  const words = [...new Set([...(of ?? []), taken])].filter(Boolean);
  return words.map((word) => <option key={word}>{word}</option>);
}
