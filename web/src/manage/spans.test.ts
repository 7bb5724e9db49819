import { expect, test } from 'vitest';
import { chooseUtc } from '../ui/zone';
import { fieldMoment, momentField, spanMs, spanText } from './spans';

test('lengths of time are read as the API reads them', () => {
  expect(spanMs('90s')).toBe(90_000);
  expect(spanMs('1d12h')).toBe(129_600_000);
  expect(spanMs('1.5h')).toBe(5_400_000);
  expect(spanMs(' 250ms ')).toBe(250);
  for (const no of ['', '2', 'h', '2 h', '-1h', '1y', 'soon']) expect(spanMs(no), no).toBeNull();
});

test('and written so that they are read the same', () => {
  expect(spanText(5_400_000)).toBe('1h30m');
  expect(spanText(8 * 86_400_000)).toBe('8d');
  expect(spanText(0)).toBe('0s');
  for (const ms of [1, 999, 61_000, 90_061_001]) expect(spanMs(spanText(ms))).toBe(ms);
});

test('a moment goes through its field in either zone', () => {
  const at = Date.parse('2030-01-31T12:30:00Z');
  for (const utc of [true, false]) {
    chooseUtc(utc);
    expect(fieldMoment(momentField(at))).toBe(at);
  }
  chooseUtc(true);
  expect(momentField(at)).toBe('2030-01-31T12:30');
  expect(fieldMoment('')).toBeNull();
  expect(fieldMoment('2030-99-99T00:00')).toBeNull();
});
