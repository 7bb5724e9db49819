/** How much of what is owned is used; more than that is borrowed. */
export function Bar({ used, owns }: { used: number; owns: number }) {
  const share = owns > 0 ? used / owns : used > 0 ? 1 : 0;
  return (
    <div className="bar" aria-hidden="true">
      <i className={share > 1 ? 'warn' : ''} style={{ width: `${Math.min(1, share) * 100}%` }} />
    </div>
  );
}
