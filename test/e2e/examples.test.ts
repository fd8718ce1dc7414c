import { expect, test } from 'bun:test'
import { runExample } from '#test/support/example.ts'

test.each(['express-shop', 'hono-worker'])(
  'examples: the commands of %s print what its README shows',
  async (name) => {
    const { shown, printed } = await runExample(name)
    expect(shown.length).toBeGreaterThan(0)
    expect(printed).toEqual([...shown])
  },
  120_000,
)
