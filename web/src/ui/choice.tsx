/** Buttons in a row of which one is pressed: each its value, its word, and what it means. */
export function Choice<T extends string | number>({
  label,
  of,
  chosen,
  choose,
}: {
  label: string;
  of: readonly (readonly [value: T, word: string, title?: string])[];
  chosen: T;
  choose: (value: T) => void;
}) {
  return (
    <div className="modes" role="group" aria-label={label}>
      {of.map(([value, word, title]) => (
        <button
          key={word}
          type="button"
          aria-pressed={chosen === value}
          title={title}
          onClick={() => choose(value)}
        >
          {word}
        </button>
      ))}
    </div>
  );
}
