import { useAct } from '../ui/act';

/** The command that asks the same, to be copied. */
export function Command({ text }: { text: string }) {
  const { act } = useAct(false);
  return (
    <div className="whole">
      <p className="dim">The same on the command line:</p>
      <pre className="log">{text}</pre>
      <div className="form-actions">
        <button
          type="button"
          onClick={() =>
            void act(async () => {
              if (!navigator.clipboard)
                throw new Error('This browser does not let the page copy: select the text.');
              await navigator.clipboard.writeText(text);
            }, 'Copied the command')
          }
        >
          Copy the command
        </button>
      </div>
    </div>
  );
}
