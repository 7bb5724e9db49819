import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { type Head, num, Table, unseen } from './table';

test('every column has a head with a name, also one that is not seen, and none that is not there', () => {
  const heads: Head[] = ['Name', num('GPUs', 'now'), false, undefined, unseen('Actions')];
  const text = renderToStaticMarkup(Table({ heads, children: null }));
  expect(text).toContain(
    '<tr><th>Name</th><th class="num" title="now">GPUs</th><th><span class="skip">Actions</span></th></tr>',
  );
});
