import { useLayoutEffect, useRef, useState } from 'react';
import { CLASS_WORDS, CLASSES, classColor, type Theme } from '../map/colors';
import { contrast } from '../map/hues';
import { Panel } from '../ui/parts';
import { num, Table } from '../ui/table';
import { GROUNDS, INKS, PAIRS, SIZES, SPACES, WEIGHTS } from '../ui/tokens';

const bare = (name: string) => name.slice(2);

/** Sizes, weights and spaces: the same in both themes. */
export function Measures() {
  return (
    <Panel title="Sizes, weights and spaces" note="styles/tokens.css; nothing else is used">
      <div className="body design-sizes">
        {SIZES.map((name) => (
          <p key={name} style={{ fontSize: `var(${name})` }}>
            {bare(name)}: 42 GPUs on 6 nodes
          </p>
        ))}
        {WEIGHTS.map((name) => (
          <p key={name} style={{ fontWeight: `var(${name})` }}>
            {bare(name)}: 42 GPUs on 6 nodes
          </p>
        ))}
        {SPACES.map((name) => (
          <p key={name} className="row">
            <i className="design-space" style={{ width: `var(${name})` }} /> {bare(name)}
          </p>
        ))}
      </div>
    </Panel>
  );
}

/** The colours as the browser has them, with the contrast of each on each ground. */
export function Colours({ theme }: { theme: Theme }) {
  const box = useRef<HTMLDivElement>(null);
  const [value, setValue] = useState<Record<string, string>>({});
  useLayoutEffect(() => {
    if (!box.current) return;
    const style = getComputedStyle(box.current);
    const all = [...GROUNDS, ...INKS, ...PAIRS.flat(), '--focus', '--line', '--line-strong'];
    setValue(Object.fromEntries(all.map((name) => [name, style.getPropertyValue(name).trim()])));
  }, []);
  const ratio = (a: string, b: string) =>
    value[a] && value[b] ? contrast(value[a], value[b]).toFixed(1) : '–';
  return (
    <Panel title={`Colours, ${theme}`} note="contrast on each ground; words need 4.5">
      <div ref={box}>
        <Table label={`Colours, ${theme}`} heads={['Colour', 'Value', ...GROUNDS.map((g) => num(bare(g)))]}>
          {INKS.map((ink) => (
            <tr key={ink}>
              <td style={{ color: `var(${ink})` }}>{bare(ink)}</td>
              <td className="mono">{value[ink]}</td>
              {GROUNDS.map((g) => (
                <td key={g} className="num">
                  {ratio(ink, g)}
                </td>
              ))}
            </tr>
          ))}
          {PAIRS.map(([ink, ground]) => (
            <tr key={ink}>
              <td>
                <span className="design-pair" style={{ color: `var(${ink})`, background: `var(${ground})` }}>
                  {bare(ink)}
                </span>
              </td>
              <td className="mono">{value[ink]}</td>
              <td className="num" colSpan={GROUNDS.length}>
                {ratio(ink, ground)} on {bare(ground)}
              </td>
            </tr>
          ))}
        </Table>
        <div className="body">
          <ul className="legend" aria-label={`Classes of the map, ${theme}`}>
            {CLASSES.map((c) => (
              <li key={c}>
                <i style={{ background: classColor(c, theme) }} /> {CLASS_WORDS[c]}
              </li>
            ))}
          </ul>
        </div>
      </div>
    </Panel>
  );
}
