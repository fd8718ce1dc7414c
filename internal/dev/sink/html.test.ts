import { expect, test } from 'bun:test'
import { html, textOf } from './html.ts'

test('text is escaped once, markup stays', () => {
  const hostile = `<a href="x" title='y'>&amp;</a>`
  const inner = html`<td>${hostile}</td>`
  expect(textOf(html`<tr class="${'"><script>'}">${inner}</tr>`)).toBe(
    '<tr class="&quot;&gt;&lt;script&gt;"><td>&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;</td></tr>',
  )
})

test('lists are joined; numbers are shown, also 0; nothing is shown of undefined and false', () => {
  expect(textOf(html`<p>${['a', html`<br>`, [0, '<']]}${undefined}${false}${''}</p>`)).toBe(
    '<p>a<br>0&lt;</p>',
  )
})
