import { expect, test } from 'vitest';
import { LIMIT, offers, stateWord } from './offers';

const user = { submits: true, operates: false };
const operator = { submits: true, operates: true };
const viewer = { submits: false, operates: false };

test('a job that is held is called held', () => {
  expect(stateWord({ state: 'queued', held: 'user:ann' })).toBe('held');
  expect(stateWord({ state: 'queued', held: null })).toBe('queued');
  expect(stateWord({ state: 'cancelled', held: 'user:ann' })).toBe('cancelled');
});

test('only what the role and the state allow is offered', () => {
  expect(offers({ state: 'queued', held: null }, user)).toEqual(['hold', 'limit', 'clone', 'cancel']);
  const held = { state: 'queued', held: 'user:ann' } as const;
  expect(offers(held, user)).toEqual(['release', 'limit', 'clone', 'cancel']);
  expect(offers({ state: 'running', held: null }, user)).toEqual(['clone', 'cancel']);
  expect(offers({ state: 'running', held: null }, operator)).toEqual(['limit', 'clone', 'cancel']);
  expect(offers({ state: 'stopping', held: null }, operator)).toEqual(['clone', 'cancel']);
  expect(offers({ state: 'failed', held: null }, user)).toEqual(['requeue', 'again', 'clone']);
  // It was cancelled while it was held: there is nothing to release.
  expect(offers({ state: 'cancelled', held: 'user:ann' }, user)).toEqual(['requeue', 'again', 'clone']);
  for (const state of ['queued', 'running', 'failed'] as const)
    expect(offers({ state, held: null }, viewer)).toEqual([]);
});

test('a time limit is written as the server reads it', () => {
  const whole = new RegExp(`^(?:${LIMIT})$`);
  for (const good of ['4h', '90m', '1d12h', '2w']) expect(good).toMatch(whole);
  for (const bad of ['', '0h', '4', 'h', '-4h', '4 h', '4 hours']) expect(bad).not.toMatch(whole);
});
