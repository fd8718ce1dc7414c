import { expect, test } from 'bun:test'
import { type Columns, Tables } from './tables.ts'

const events = [
  { id: 'evt_1', state: 'processed' },
  { id: 'evt_漢字', state: 'delivery_failed' },
  { id: 'evt_3', state: null },
]
const columns: Columns<(typeof events)[number]> = { ID: 'id', STATE: ({ state }) => state }

test('table: aligns cells by their width on a terminal, without spaces at the end', () => {
  expect(new Tables(false).list(events, columns, 'none')).toBe(
    ['ID        STATE', 'evt_1     processed', 'evt_漢字  delivery_failed', 'evt_3     -'].join('\n'),
  )
})

test('table: with colours enabled, shows the header in bold and each state in its colour', () => {
  const text = new Tables(true).list(events, columns, 'none')
  expect(text).toContain('\u001b[1mSTATE\u001b[22m')
  expect(text).toContain('\u001b[32mprocessed\u001b[39m')
  expect(text).toContain('\u001b[31mdelivery_failed\u001b[39m')
  expect(Bun.stripANSI(text)).toBe(new Tables(false).list(events, columns, 'none'))
})

test('table: replaces control characters', () => {
  const table = new Tables(true)
  expect(table.details([['cause\u0007', '\u001b[2J\u009b1A\n']])).toBe('cause\ufffd  \ufffd[2J\ufffd1A\ufffd')
  expect(table.list([], columns, 'No events')).toBe('No events')
})
