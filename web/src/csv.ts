// Rows as a file for spreadsheets. No React here.

function cell(value: unknown): string {
  const text = value === null || value === undefined ? '' : String(value);
  // A spreadsheet would take such a text for a formula.
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

export function csvText(rows: readonly (readonly unknown[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
