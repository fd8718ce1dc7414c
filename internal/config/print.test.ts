import { expect, test } from 'bun:test'
import { printableConfig } from './print.ts'
import { readConfig } from './read.ts'

test('a printed configuration holds what is set, and no secret', () => {
  const read = readConfig(
    {
      LATCHKEY_DATABASE_URL: 'postgres://app:pw-database@db/latchkey',
      LATCHKEY_REDIS_URL: 'redis://:pw-redis@redis',
      LATCHKEY_KEY_RING: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=pw-otlp',
      LATCHKEY_TRUSTED_PROXIES: '10.0.0.0/8,::1',
    },
    { process: 'api' },
  )
  if (read.kind === 'invalid') throw new Error(read.problems.join('\n'))
  const printed = printableConfig(read.config)
  expect(printed).toMatchObject({
    LATCHKEY_API_PORT: 8080,
    LATCHKEY_DATABASE_URL: 'postgres://app:[redacted]@db/latchkey',
    LATCHKEY_KEY_RING: '[redacted]',
    OTEL_EXPORTER_OTLP_HEADERS: '[redacted]',
    LATCHKEY_TRUSTED_PROXIES: '10.0.0.0/8,::1',
  })
  expect(JSON.stringify(printed)).not.toMatch(/pw-|BwcH/)
  expect(printed).not.toHaveProperty('OTEL_EXPORTER_OTLP_ENDPOINT')
})

test('a field that no setting is named for is not printed', () => {
  expect(printableConfig({ other: 'secret' })).toEqual({})
})
