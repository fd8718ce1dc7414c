import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runExample } from '#test/support/documents/example.ts'

const examples = resolve(import.meta.dir, '../../examples')

test.each(['express-shop', 'hono-worker'])(
  'examples: the commands of %s print what its README shows',
  async (name) => {
    const { shown, printed } = await runExample(name)
    expect(shown.length).toBeGreaterThan(0)
    expect(printed).toEqual([...shown])
  },
  120_000,
)

test.each([
  ['express-shop/shop.ts', /Latchkey\(|idempotency\(/, /receiver\(|expressReceiver\(/],
  ['fastapi-events/service.py', /AsyncLatchkey\(|aclose|IdempotencyMiddleware/, /\breceiver\b/i],
])(
  'examples: %s needs at most three lines for idempotency, and three for webhooks',
  (file, idempotency, webhooks) => {
    const lines = readFileSync(join(examples, file), 'utf8')
      .split('\n')
      .filter((line) => !/^(import|from|\/\/|""")/.test(line))
    const [guarding, receiving] = [idempotency, webhooks].map((used) =>
      lines.filter((line) => used.test(line)),
    ) as [string[], string[]]
    expect(guarding.length).toBeWithin(2, 4)
    expect(receiving.length).toBeWithin(1, 4)
    const others = lines.filter((line) => ![...guarding, ...receiving].includes(line))
    expect(others.filter((line) => /\b(latchkey|Latchkey|receive)\b/.test(line))).toEqual([])
  },
)
