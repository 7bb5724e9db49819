import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode, useEffect, useState, useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError, session } from './api/client';
import { FleetContext } from './live/context';
import { Fleet } from './live/fleet';
import { Login } from './pages/login';
import { router } from './router';
import { Announcements } from './ui/act';
import { Asking } from './ui/ask';
import { wear } from './ui/brand';
import './ui/theme';
import 'uplot/dist/uPlot.min.css';
import './styles/index.css';

/** Everything of one session: gone when the user leaves. */
function Inside() {
  const [queries] = useState(
    () =>
      new QueryClient({
        defaultOptions: {
          queries: {
            // What changes is reported by the stream; nothing is read again by the clock.
            staleTime: Number.POSITIVE_INFINITY,
            refetchOnWindowFocus: false,
            // A site may be reached where the browser thinks that it is offline; where not, that is said.
            networkMode: 'always',
            retry: (n, e) => n < 2 && !(e instanceof ApiError && e.status >= 400 && e.status < 500),
          },
        },
      }),
  );
  const [fleet] = useState(() => new Fleet(queries));
  useEffect(() => {
    fleet.start();
    return () => fleet.end();
  }, [fleet]);
  return (
    <QueryClientProvider client={queries}>
      <FleetContext.Provider value={fleet}>
        <Announcements>
          <Asking>
            <RouterProvider router={router} />
          </Asking>
        </Announcements>
      </FleetContext.Provider>
    </QueryClientProvider>
  );
}

function Console() {
  const state = useSyncExternalStore(session.subscribe, session.state);
  const number = useSyncExternalStore(session.subscribe, session.number);
  if (state === 'asking') return null;
  return state === 'in' ? <Inside key={number} /> : <Login />;
}

const root = document.getElementById('root');
// Nobody should see one name turn into another.
if (root)
  void Promise.all([wear(), session.ask()]).then(() =>
    createRoot(root).render(
      <StrictMode>
        <Console />
      </StrictMode>,
    ),
  );
