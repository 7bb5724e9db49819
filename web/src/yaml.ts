// Writes plain data as YAML: what the form shows is what `muster submit` takes.

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain | undefined };

/** Words that YAML would read as something else than text. */
const AMBIGUOUS =
  /^(|[-?:,[\]{}#&*!|>'"%@`].*|.*: .*|.* #.*|.*:|true|false|null|yes|no|on|off|~|[-+.0-9].*)$/i;

function scalar(v: string | number | boolean | null): string {
  if (typeof v !== 'string') return String(v);
  return AMBIGUOUS.test(v) || v !== v.trim() || /[\n\t\\]/.test(v) ? JSON.stringify(v) : v;
}

function simple(v: Plain): v is string | number | boolean | null {
  return v === null || typeof v !== 'object';
}

/** How a text of several lines begins: where its lines begin, and whether its last one is ended. */
function block(text: string): string {
  const end = text.endsWith('\n\n') ? '+' : text.endsWith('\n') ? '' : '-';
  return `|${text.startsWith(' ') || text.startsWith('\n') ? '2' : ''}${end}`;
}

export function yaml(value: Plain, indent = 0): string {
  const pad = ' '.repeat(indent);
  if (simple(value)) return `${pad}${scalar(value)}\n`;
  if (Array.isArray(value)) {
    if (value.every(simple)) return `${pad}[${value.map((v) => scalar(v as string)).join(', ')}]\n`;
    return value.map((v) => `${pad}- ${yaml(v, indent + 2).trimStart()}`).join('');
  }
  return Object.entries(value)
    .filter((e): e is [string, Plain] => e[1] !== undefined)
    .map(([key, v]) => {
      if (typeof v === 'string' && v.includes('\n')) {
        const lines = v.replace(/\n$/, '').split('\n');
        return `${pad}${key}: ${block(v)}\n${lines.map((l) => `${pad}  ${l}\n`).join('')}`;
      }
      if (simple(v)) return `${pad}${key}: ${scalar(v)}\n`;
      if (Array.isArray(v) && v.every(simple)) return `${pad}${key}: ${yaml(v)}`;
      const inner = yaml(v, indent + 2);
      return inner === '' ? `${pad}${key}: {}\n` : `${pad}${key}:\n${inner}`;
    })
    .join('');
}
