import { useEffect, useRef } from 'react';
import { Empty, Panel } from '../ui/parts';
import type { RackGroup } from './bulk';

/** Racks that are drawn at once; the others are found by words. */
const DRAWN = 60;

/** Chooses nodes one by one, by the rack, or all that the words find. */
export function Chooser({
  groups,
  words,
  setWords,
  chosen,
  setChosen,
}: {
  groups: RackGroup[];
  words: string;
  setWords: (words: string) => void;
  chosen: ReadonlySet<string>;
  setChosen: (chosen: ReadonlySet<string>) => void;
}) {
  const found = groups.flatMap((g) => g.nodes);
  const put = (names: readonly string[], yes: boolean) => {
    const next = new Set(chosen);
    for (const n of names) {
      if (yes) next.add(n);
      else next.delete(n);
    }
    setChosen(next);
  };
  return (
    <Panel
      title="Racks"
      note={groups.length > DRAWN ? `the first ${DRAWN} of ${groups.length}: narrow them by words` : ''}
      actions={
        <span className="log-tools">
          <input
            type="search"
            aria-label="Find nodes and racks"
            placeholder="node or rack"
            value={words}
            onChange={(e) => setWords(e.target.value)}
          />
          <Check
            label={`All ${found.length} found`}
            names={found}
            chosen={chosen}
            set={(yes) => put(found, yes)}
          />
        </span>
      }
    >
      {groups.length === 0 && <Empty title={words ? `No node or rack fits ${words}` : 'No nodes yet'} />}
      <div className="rack-list">
        {groups.slice(0, DRAWN).map((g) => (
          <div className="item" key={g.path}>
            <h3>
              <Check
                label={`${g.path} (${g.nodes.length})`}
                names={g.nodes}
                chosen={chosen}
                set={(yes) => put(g.nodes, yes)}
              />
            </h3>
            <div className="rack-nodes">
              {g.nodes.map((n) => (
                <Check key={n} label={n} names={[n]} chosen={chosen} set={(yes) => put([n], yes)} />
              ))}
            </div>
          </div>
        ))}
      </div>
    </Panel>
  );
}

/** A box that stands for one or many: it shows when only some of them are chosen. */
function Check({
  label,
  names,
  chosen,
  set,
}: {
  label: string;
  names: readonly string[];
  chosen: ReadonlySet<string>;
  set: (yes: boolean) => void;
}) {
  const box = useRef<HTMLInputElement>(null);
  const count = names.filter((n) => chosen.has(n)).length;
  const some = count > 0 && count < names.length;
  useEffect(() => {
    if (box.current) box.current.indeterminate = some;
  }, [some]);
  return (
    <label className="box">
      <input
        ref={box}
        type="checkbox"
        checked={names.length > 0 && count === names.length}
        disabled={names.length === 0}
        onChange={(e) => set(e.target.checked)}
      />{' '}
      {label}
    </label>
  );
}
