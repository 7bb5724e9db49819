'use strict';
// One page over the same API that everybody uses. Lists are read again when the event stream
// says that something changed, once a second at most.

const $ = id => document.getElementById(id);
const KEY = 'muster.token';
let token = sessionStorage.getItem(KEY);
let session = null;      // aborts everything when the user leaves
let nodes = [], jobs = [], shownJob = null;
const squares = new Map(); // node name → {el, signature}

function el(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
}

async function api(path, headers = {}) {
  const response = await fetch(path, {
    headers: { Authorization: `Bearer ${token}`, ...headers },
    signal: session ? session.signal : undefined, cache: 'no-store',
  });
  if (response.status === 401) { leave('This token is not valid (any more).'); throw new Error('401'); }
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    const e = new Error(body && body.error ? body.error.message : `HTTP ${response.status}`);
    e.status = response.status; e.headers = response.headers;
    throw e;
  }
  return response;
}

async function all(path) {
  const items = [];
  let cursor = null;
  do {
    const page = await (await api(path + (cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''))).json();
    items.push(...page.items);
    cursor = page.cursor;
  } while (cursor);
  return items;
}

// ---- in and out -------------------------------------------------------------------------------

function leave(why = '') {
  if (session) session.abort();
  session = null; token = null;
  sessionStorage.removeItem(KEY);
  $('main').hidden = true; $('leave').hidden = true; $('login').hidden = false;
  $('refused').textContent = why;
  $('totals').replaceChildren(); $('site').textContent = '';
  health('not connected', '');
  if ($('detail').open) $('detail').close();
  $('token').focus();
}

function health(text, kind) {
  $('health').textContent = text;
  $('health').className = `pill ${kind}`;
}

async function enter() {
  session = new AbortController();
  const mine = session;
  try {
    const who = await api('/v1/whoami');
    const me = await who.json();
    $('login').hidden = true; $('main').hidden = false; $('leave').hidden = false;
    $('site').textContent = `${me.site} · ${me.name} (${me.role}${me.project ? `, ${me.project}` : ''})`;
    // Show a little of what was before; a bound token's position is opaque and starts here.
    let from = who.headers.get('Muster-Seq') || '0';
    if (/^\d+$/.test(from)) from = String(Math.max(0, Number(from) - 40));
    await refresh();
    if (session === mine) follow(from, mine);
  } catch (e) {
    if (session === mine && e.name !== 'AbortError' && e.message !== '401') leave(e.message);
  }
}

// ---- the stream -------------------------------------------------------------------------------

async function follow(from, mine) {
  let last = from, pause = 500;
  while (session === mine) {
    try {
      const response = await api('/v1/events', { Accept: 'text/event-stream', 'Last-Event-ID': last });
      health('live', 'live');
      pause = 500;
      schedule();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        let end;
        while ((end = buffer.indexOf('\n\n')) >= 0) {
          const block = buffer.slice(0, end);
          buffer = buffer.slice(end + 2);
          let data = '';
          for (const line of block.split('\n')) {
            if (line.startsWith('id: ')) last = line.slice(4);
            else if (line.startsWith('data: ')) data += line.slice(6);
          }
          if (data) happened(JSON.parse(data));
        }
      }
    } catch (e) {
      if (session !== mine) return;
      if (e.status === 410) last = e.headers.get('Muster-Oldest') || '0';
      if (e.status === 400) last = '0';
    }
    if (session !== mine) return;
    health('reconnecting', 'away');
    await new Promise(r => setTimeout(r, pause + Math.random() * pause));
    pause = Math.min(pause * 2, 10000);
  }
}

let waiting = null;
function schedule() {
  if (waiting) return;
  waiting = setTimeout(async () => {
    try { await refresh(); } catch { /* the stream reports when the server is away */ }
    waiting = null;
  }, 1000);
}

function about(e) {
  const d = e.data || {};
  const job = d.key ? `${d.key.job}.${d.key.attempt}` : d.job ?? (e.kind === 'job_submitted' ? d.id : null);
  const parts = [];
  if (job != null) parts.push(`job ${job}`);
  if (d.node) parts.push(d.node);
  if (d.reason) parts.push(typeof d.reason === 'string' ? d.reason : d.reason.why);
  else if (d.name) parts.push(d.name);
  return parts.join(' · ');
}

function happened(e) {
  const at = new Date(e.at);
  const item = el('li', { title: `${e.actor}${e.seq ? `, seq ${e.seq}` : ''}` },
    el('time', { dateTime: e.at, textContent: at.toLocaleTimeString() }),
    el('b', { textContent: e.kind.replaceAll('_', ' ') }), ` ${about(e)}`);
  $('events').prepend(item);
  while ($('events').children.length > 200) $('events').lastChild.remove();
  schedule();
}

// ---- lists ------------------------------------------------------------------------------------

async function refresh() {
  const which = $('which').value;
  const [fleet, page] = await Promise.all([
    all('/v1/nodes?limit=1000'),
    api(`/v1/jobs?limit=200${which ? `&state=${which}` : ''}`).then(r => r.json()),
  ]);
  nodes = fleet; jobs = page.items;
  drawFleet(); drawJobs(); drawTotals();
}

function drawTotals() {
  const gpus = nodes.reduce((n, x) => n + x.gpus_total, 0);
  const used = nodes.reduce((n, x) => n + x.gpus_used, 0);
  const lost = nodes.filter(x => x.state === 'lost').length;
  const count = s => jobs.filter(j => j.state === s).length;
  const facts = [['nodes', nodes.length], ['GPUs used', `${used} / ${gpus}`], ['running', count('running')], ['queued', count('queued')]];
  if (lost) facts.push(['unreachable', lost]);
  $('totals').replaceChildren(...facts.map(([k, v]) => el('div', {}, el('dt', { textContent: k }), el('dd', { textContent: v }))));
}

// Golden-angle steps keep neighbours in number apart in colour.
const hue = id => Math.round((parseInt(id, 10) || 0) * 137.508) % 360;

function nodeClass(n) {
  if (n.state === 'lost' || n.state === 'enrolled' || n.state === 'retired') return 'lost';
  return n.state === 'ready' ? '' : 'cordoned';
}

function drawNode(n) {
  const signature = JSON.stringify([n.state, n.gpus_total, n.gpus_excluded, n.jobs.map(j => [j.id, j.gpus])]);
  let known = squares.get(n.name);
  if (known && known.signature === signature) return known.el;
  const box = known ? known.el : el('div', { className: 'node', tabIndex: 0 });
  box.dataset.node = n.name;
  box.setAttribute('role', 'img');
  box.setAttribute('aria-label', `${n.name}: ${n.state}, ${n.gpus_used} of ${n.gpus_total} GPUs used`);
  const state = nodeClass(n);
  const owner = new Map();
  for (const j of n.jobs) for (const g of j.gpus) owner.set(g, j);
  const cells = [];
  for (let g = 0; g < Math.max(1, n.gpus_total); g++) {
    const cell = el('i', { className: 'gpu' });
    const job = n.gpus_total ? owner.get(g) : n.jobs[0];
    if (!n.gpus_total) cell.classList.add('cpu');
    if (state === 'lost' || n.gpus_excluded.includes(g)) cell.classList.add('lost');
    else {
      if (job) { cell.classList.add('used'); cell.style.setProperty('--h', hue(job.id)); }
      if (state) cell.classList.add(state);
    }
    cell.dataset.gpu = g;
    cells.push(cell);
  }
  box.replaceChildren(...cells);
  squares.set(n.name, { el: box, signature });
  return box;
}

let layout = '';
function drawFleet() {
  const shape = nodes.map(n => `${n.location.leaf}/${n.location.rack}/${n.name}`).join();
  for (const n of nodes) drawNode(n);
  if (shape === layout) return;
  layout = shape;
  const leaves = new Map();
  for (const n of nodes) {
    const leaf = `${n.location.spine} / ${n.location.leaf}`;
    if (!leaves.has(leaf)) leaves.set(leaf, new Map());
    const racks = leaves.get(leaf);
    if (!racks.has(n.location.rack)) racks.set(n.location.rack, []);
    racks.get(n.location.rack).push(squares.get(n.name).el);
  }
  $('fleet').replaceChildren(...[...leaves].map(([leaf, racks]) => el('div', { className: 'leaf' },
    el('h3', { textContent: leaf }),
    el('div', { className: 'racks' }, ...[...racks].map(([rack, boxes]) =>
      el('div', { className: 'rack' }, el('span', { textContent: rack }), el('div', {}, ...boxes)))))));
}

function age(text) {
  let s = Math.max(0, Math.round((Date.now() - new Date(text)) / 1000));
  for (const [unit, n] of [['d', 86400], ['h', 3600], ['m', 60]]) if (s >= n) return `${Math.floor(s / n)}${unit}`;
  return `${s}s`;
}

function gang(j) {
  return j.groups.map(g => `${g.nodes}×${g.gpus ? `${g.gpus} GPU` : `${g.cpus} CPU`}`).join(' + ');
}

function where(j) {
  if (j.state === 'queued') return j.waiting || '';
  if (j.attempt) return `${j.attempt.domain} (${j.attempt.slots.slice(0, 3).map(s => s.node).join(', ')}${j.attempt.slots.length > 3 ? ', …' : ''})`;
  return j.reason || '';
}

function drawJobs() {
  const focused = document.activeElement && document.activeElement.dataset.job;
  $('jobs').replaceChildren(...jobs.map(j => {
    const open = el('button', { className: 'link num', type: 'button', textContent: j.id });
    open.dataset.job = j.id;
    const swatch = el('span', { className: 'swatch' });
    swatch.style.setProperty('--h', hue(String(j.number)));
    const held = j.held ? ' (held)' : '';
    return el('tr', {}, el('td', {}, ...(j.attempt ? [swatch] : []), open), el('td', { textContent: j.name }),
      el('td', { className: j.state, textContent: j.state + held }), el('td', { textContent: j.project }),
      el('td', { textContent: gang(j) }), el('td', { className: 'num', textContent: age(j.submitted_at), title: j.submitted_at }),
      el('td', { textContent: where(j) }));
  }));
  $('no-jobs').hidden = jobs.length > 0;
  // The rows were made anew: keep the keyboard where it was.
  if (focused) { const b = document.querySelector(`[data-job="${CSS.escape(focused)}"]`); if (b) b.focus(); }
}

// ---- one job ----------------------------------------------------------------------------------

async function show(id) {
  shownJob = id;
  $('detail-title').textContent = `Job ${id}`;
  $('facts').replaceChildren(); $('why').replaceChildren(); $('output').textContent = 'loading…';
  if (!$('detail').open) $('detail').showModal();
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  try {
    const j = await (await api(path)).json();
    if (shownJob !== id) return;
    $('detail-title').textContent = `Job ${j.id}: ${j.name}`;
    const facts = { state: j.state, reason: j.reason || j.waiting, project: j.project, user: j.user, gang: gang(j),
      priority: j.spec.priority, 'time limit': j.spec.time_limit, submitted: j.submitted_at, started: j.started_at,
      ended: j.ended_at, 'exit code': j.exit_code, attempts: j.attempts, where: j.attempt && where(j),
      step: j.progress && `${j.progress.step}${j.progress.loss != null ? `, loss ${j.progress.loss}` : ''}`,
      checkpoint: j.checkpoint && `step ${j.checkpoint.step ?? '?'} at ${j.checkpoint.at}` };
    for (const [k, v] of Object.entries(facts)) {
      if (v != null && v !== '') $('facts').append(el('dt', { textContent: k }), el('dd', { textContent: v }));
    }
    if (j.state === 'queued') why(await (await api(`${path}/explain`)).json());
  } catch (e) { $('facts').append(el('dt', { textContent: 'error' }), el('dd', { textContent: e.message })); }
  try {
    const text = await (await api(`${path}/logs?tail=50`, { Accept: 'application/x-ndjson' })).text();
    if (shownJob !== id) return;
    const lines = text.split('\n').filter(Boolean).map(l => JSON.parse(l));
    const piece = l => l.text ?? (l.data ? '(not text)\n' : l.note ? `(${l.note})\n` : '');
    $('output').textContent = lines.map(l => piece(l).replace(/^(?=.)/gm, `[${l.rank}] `)).join('').slice(-50000) || 'Nothing was printed yet.';
    $('output').scrollTop = $('output').scrollHeight;
  } catch (e) { $('output').textContent = e.message; }
}

function why(e) {
  const list = e.constraints.map(c => el('li', {}, c.binding ? el('b', { textContent: c.name }) : c.name, `: ${c.detail} (${c.nodes_left} nodes left)`));
  const wishes = e.suggestions.map(s => el('li', { textContent: s }));
  $('why').replaceChildren(el('h3', { textContent: 'Why it waits' }), el('p', { textContent: e.summary }), el('ul', {}, ...list),
    ...(wishes.length ? [el('h3', { textContent: 'Sooner if' }), el('ul', {}, ...wishes)] : []));
}

// ---- hands ------------------------------------------------------------------------------------

function tip(event) {
  const box = event.target.closest && event.target.closest('.node');
  if (!box) { $('tip').hidden = true; return; }
  const n = nodes.find(x => x.name === box.dataset.node);
  if (!n) return;
  const g = event.target.dataset.gpu;
  const lines = [`${n.name} · ${n.state}${n.cordon ? `: ${n.cordon}` : ''}`, `${n.sku} · ${n.gpus_used}/${n.gpus_total} GPUs used`];
  if (g !== undefined && n.gpus_total) {
    const job = n.jobs.find(j => j.gpus.includes(Number(g)));
    lines.push(`GPU ${g}: ${n.gpus_excluded.includes(Number(g)) ? 'out of use' : job ? `job ${job.id} (${job.name})` : 'free'}`);
  } else for (const j of n.jobs.slice(0, 6)) lines.push(`job ${j.id} (${j.name})`);
  $('tip').textContent = lines.join('\n');
  $('tip').hidden = false;
  const r = box.getBoundingClientRect();
  $('tip').style.left = `${Math.min(r.left, innerWidth - 370)}px`;
  $('tip').style.top = `${r.bottom + 6 > innerHeight - 80 ? r.top - 70 : r.bottom + 6}px`;
}
for (const kind of ['pointerover', 'focusin']) $('fleet').addEventListener(kind, tip);
for (const kind of ['pointerleave', 'focusout']) $('fleet').addEventListener(kind, () => { $('tip').hidden = true; });
$('fleet').addEventListener('click', event => {
  const box = event.target.closest('.node');
  const n = box && nodes.find(x => x.name === box.dataset.node);
  const job = n && n.jobs.find(j => j.gpus.includes(Number(event.target.dataset.gpu)));
  if (job && /^\d/.test(job.id)) show(job.id);
});
$('jobs').addEventListener('click', event => {
  const row = event.target.closest('tr');
  const button = row && row.querySelector('[data-job]');
  if (button) show(button.dataset.job);
});
$('which').addEventListener('change', () => refresh().catch(() => {}));
$('detail').addEventListener('close', () => { shownJob = null; });
$('leave').addEventListener('click', () => leave());
$('login').addEventListener('submit', event => {
  event.preventDefault();
  token = $('token').value.trim();
  $('token').value = '';
  $('refused').textContent = '';
  sessionStorage.setItem(KEY, token);
  enter();
});
if (token) enter(); else leave();
