import { useQuery } from '@tanstack/react-query';
import { projects } from '../queries';
import { Options } from '../ui/options';
import { SelectField, TextField } from './field';
import { type Matcher, TOPICS } from './silence';

interface Typed {
  value: string;
  onChange: (e: { target: { value: string } }) => void;
  problem: string | null;
}

/** Which alerts are meant, of a silence and of a route. `typed`: the value of a key and what is wrong with it. */
export function MatcherFields({ typed }: { typed: (key: keyof Matcher) => Typed }) {
  const known = useQuery(projects());
  const project = typed('project');
  return (
    <fieldset className="group whole fields">
      <legend>Which alerts: all that is given must fit; * matches anything</legend>
      <SelectField label="Topic" hint="what the alert was concluded from" {...typed('topic')}>
        <option value="">any</option>
        {Object.entries(TOPICS).map(([topic, words]) => (
          <option key={topic} value={topic}>
            {topic.replace('_', ' ')}: {words}
          </option>
        ))}
      </SelectField>
      <TextField label="Kind" hint="such as gpu-fault or thermal*" {...typed('kind')} />
      <TextField label="Entity" hint="such as node:hgx-0001" {...typed('entity')} />
      <TextField
        label="Under"
        hint="the thing and what is part of it, such as rack:r07"
        {...typed('under')}
      />
      <SelectField label="Urgency" {...typed('urgency')}>
        <option value="">any</option>
        <Options of={['page', 'ticket']} />
      </SelectField>
      <TextField label="Owner" {...typed('owner')} />
      <SelectField label="Project" {...project}>
        <option value="">any</option>
        <Options of={known.data?.items.map((p) => p.name)} taken={project.value} />
      </SelectField>
    </fieldset>
  );
}
