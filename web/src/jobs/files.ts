/** Saves something as a file of the browser's user. */
export function saveBlob(name: string, blob: Blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function save(name: string, text: string, type = 'text/plain') {
  saveBlob(name, new Blob([text], { type }));
}

/** Saves rows for spreadsheets, under a name that says when. */
export function saveCsv(what: string, text: string) {
  save(`${what}-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.csv`, text, 'text/csv');
}
