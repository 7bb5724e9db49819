import { Components } from '../design/components';
import { Colours, Measures } from '../design/tokens';

/** What pages are made of, in both themes: for whoever writes the next one. Not in the navigation. */
export function DesignPage() {
  return (
    <main className="page design" id="page">
      <div className="head">
        <h1>Design</h1>
        <span className="dim">tokens and components, in both themes</span>
      </div>
      <Measures />
      {(['dark', 'light'] as const).map((theme) => (
        <section key={theme} className="design-theme" data-theme={theme} aria-label={`Theme ${theme}`}>
          <Colours theme={theme} />
          <Components theme={theme} />
        </section>
      ))}
    </main>
  );
}
