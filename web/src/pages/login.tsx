import { useState } from 'react';
import { session } from '../api/client';
import { BrandLink, BrandMark } from '../ui/mark';

export function Login() {
  const [why, setWhy] = useState(session.refusal());
  const [busy, setBusy] = useState(false);
  const enter = async (form: FormData) => {
    const token = String(form.get('token') ?? '').trim();
    setBusy(true);
    setWhy('');
    const refusal = await session.enter(token);
    setBusy(false);
    if (refusal !== null) setWhy(refusal);
  };
  return (
    <main className="login">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void enter(new FormData(e.currentTarget));
        }}
      >
        <h1 className="brand">
          <BrandMark />
        </h1>
        <p className="dim">
          Paste a token. <code>muster up</code> writes one to <code>admin.token</code> in its data directory;{' '}
          <code>muster token create</code> makes others. The session is this browser's: it ends when you log
          out, close the browser, or the token ends.
        </p>
        <label htmlFor="token">Token</label>
        <input
          id="token"
          name="token"
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
          autoFocus
        />
        <button type="submit" className="main" disabled={busy}>
          {busy ? 'Looking…' : 'Log in'}
        </button>
        <BrandLink />
        <p role="alert" className={why ? 'error' : ''}>
          {why}
        </p>
      </form>
    </main>
  );
}
