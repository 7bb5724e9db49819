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
        <p>Log in with an API token: a text that begins with mst_.</p>
        <ul className="dim">
          <li>
            No token: ask an administrator of this site. They make one with{' '}
            <code>muster token create NAME --role user</code>, or on the page Tokens of this console.
          </li>
          <li>
            Your own server: the first start of <code>muster up</code> wrote the administrator's token to a
            file. It prints the path of the file, which ends with <code>admin.token</code>. Copy its content
            into the field below.
          </li>
        </ul>
        <p className="dim">
          This browser stays logged in until you log out or close it, for 7 days at most, or until the token
          expires or is revoked.
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
