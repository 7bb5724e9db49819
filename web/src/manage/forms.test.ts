// The forms of the policy and of the routing: what the document has, and what the server refuses, at its field.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { type ComponentType, createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import type { FormOf } from './document-editor';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => 'live' }));

const { ApiError } = await import('../api/client');
const { FleetContext } = await import('../live/context');
const { PolicyForm } = await import('./policy-form');
const { ruleWords, withStep } = await import('./policy-rules');
const { RoutingForm } = await import('./routing-form');

const refused = (field: string, text: string) => new ApiError(422, 'invalid', text, null, field);

function show(what: ComponentType<FormOf>, document: FormOf['document'], error: Error | null = null): string {
  const form = createElement(what, { document, error, change: () => {} });
  const inside = createElement(FleetContext.Provider, { value: { layout: null } as never }, form);
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: new QueryClient() }, inside));
}

/** The groups that are open. */
const opened = (text: string) =>
  [...text.matchAll(/<details class="group" open="".*?<summary>([^<]+?) ?</g)].map((m) => m[1]);

test('the form of the policy has what the document has, and defaults for the rest', () => {
  const text = show(PolicyForm, { remediations: { probation: '2d', modes: { reboot: 'automatic' } } });
  expect(text).toContain('value="2d"');
  expect(text).toContain('placeholder="1d"');
  expect(text).toContain('How long a node that returned is watched. Default: 1d.');
  expect(text).toContain('<option selected="">automatic</option>');
  expect(text.match(/1 not as by default/g)).toHaveLength(2);
  expect(opened(text)).toEqual([]);
});

test('what is refused of the policy stands at its field, and its group is open', () => {
  const text = show(PolicyForm, {}, refused('remediations.probation', 'no time at all'));
  expect(opened(text)).toEqual(['Automation']);
  expect(text.match(/no time at all/g)).toHaveLength(1);
  const share = show(PolicyForm, {}, refused('remediations.limits.pool.total', 'too much'));
  expect(opened(share)).toEqual(['Limits of automation']);
  const rules = { remediations: { rules: [{ steps: ['watch'] }, { kind: 'x', steps: [] }] } };
  const rule = show(PolicyForm, rules, refused('remediations.rules[1].kind', 'not known'));
  expect(rule.match(/not known/g)).toHaveLength(1);
  expect(opened(rule)).toEqual(['Rules for findings']);
});

test('steps of a rule are in order, from the lightest to the heaviest', () => {
  expect(withStep(['replace'], 'drain', true)).toEqual(['drain', 'replace']);
  expect(withStep(['drain', 'replace'], 'drain', false)).toEqual(['replace']);
  expect(withStep(['later'], 'watch', true)).toEqual(['watch', 'later']);
  expect(ruleWords({ kind: 'ecc-*', sku: 'h100', steps: ['watch', 'drain'], mode: 'approve' })).toBe(
    'ecc-*, SKU h100: watch, drain (approve)',
  );
});

test('the form of the routing lists receivers and routes; what is refused of one is said there', () => {
  const document = {
    receivers: [{ name: 'chat', by: { webhook: { url: 'x' } } }],
    routes: [{ match: { urgency: 'page' }, to: ['chat'] }, { to: [] }],
  };
  const text = show(RoutingForm, document, refused('receivers[0].by.webhook.url', 'it is no address'));
  for (const words of ['chat: webhook', 'urgency page: to chat', 'all alerts: to nobody', 'it is no address'])
    expect(text).toContain(words);
  expect(text).toContain('aria-label="Move route 2 up"');
  expect(show(RoutingForm, { routes: 5 })).toContain('correct it there');
});
