let before: Promise<unknown> = Promise.resolve();

/** Reads one after the other what many parts of a page want at once. */
export function inTurn<T>(read: () => Promise<T>): Promise<T> {
  const turn = before.then(read);
  before = turn.catch(() => undefined);
  return turn;
}
