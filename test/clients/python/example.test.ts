import { expect, test } from 'bun:test'
import { runExample } from '#test/support/documents/example.ts'

test('examples: the commands of fastapi-events print what its README shows', async () => {
  const { shown, printed } = await runExample('fastapi-events')
  expect(shown.length).toBeGreaterThan(0)
  expect(printed).toEqual([...shown])
}, 120_000)
