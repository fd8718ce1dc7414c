import { describe, expect, test } from 'bun:test'
import { configTable, type Environment, printableConfig, readConfig } from './read.ts'
import { type ProcessName, processNames, type Setting, settings } from './settings.ts'

const key = `k1:${Buffer.alloc(32, 7).toString('base64')}`
const stores = {
  LATCHKEY_DATABASE_URL: 'postgres://app:pw@db:5432/latchkey',
  LATCHKEY_REDIS_URL: 'redis://:pw@redis:6379',
  LATCHKEY_KEY_RING: key,
}

function problemsOf(env: Environment, process: ProcessName = 'api'): readonly string[] {
  const read = readConfig({ ...stores, ...env }, { process })
  return read.kind === 'invalid' ? read.problems : []
}

test('readConfig: applies all defaults if only the stores are set', () => {
  const read = readConfig(stores, { process: 'api' })
  if (read.kind === 'invalid') throw new Error(read.problems.join('\n'))
  const { config } = read
  expect(config.apiPort).toBe(8080)
  expect(config.opsPort).toBe(9090)
  expect(config.recordTtlSecondsMax).toBe(2_592_000)
  expect(config.recordBodyBytesMax).toBe(262_144)
  expect(config.gatewaySandbox).toBe(false)
  expect(config.trustedProxies).toBeUndefined()
  expect(config.keyRing).toBe(key)
  expect('tenantsDir' in config).toBe(false)
  expect(Object.isFrozen(config)).toBe(true)
})

test('readConfig: the process `dev` needs no settings, and allows callbacks to loopback and private networks', () => {
  const read = readConfig({}, { process: 'dev' })
  if (read.kind === 'invalid') throw new Error(read.problems.join('\n'))
  expect(read.config.databaseUrl).toBeUndefined()
  expect(read.config.tenantsDir).toBe('config/samples/dev')
  expect(read.config.callbackCidrsMax).toContain('127.0.0.0/8')
})

test.each([...processNames])('readConfig: the process %s reports every missing setting', (process) => {
  const read = readConfig({}, { process })
  const required = Object.values(settings as Record<string, Setting>).filter((setting) =>
    setting.requiredBy?.includes(process),
  )
  const problems = read.kind === 'invalid' ? read.problems : []
  expect(problems.length).toBe(required.length)
  for (const setting of required) expect(problems.join('\n')).toContain(`${setting.env} is missing`)
})

test('readConfig: reports all problems together', () => {
  expect(problemsOf({ LATCHKEY_API_PORT: 'x', LATCHKEY_LOG_LEVEL: 'loud', LATCHKEY_NO: '1' })).toHaveLength(3)
})

test('readConfig: treats an empty value as unset', () => {
  expect(problemsOf({ LATCHKEY_API_PORT: '', LATCHKEY_TRUSTED_PROXIES: '' })).toEqual([])
  expect(problemsOf({ LATCHKEY_DATABASE_URL: '' })).toEqual([
    'LATCHKEY_DATABASE_URL is missing: api needs it (postgres URL)',
  ])
})

test('readConfig: does not validate settings of other processes', () => {
  expect(problemsOf({ LATCHKEY_DEV_SINK_PORT: 'broken', LATCHKEY_API_PORT: 'broken' }, 'migrate')).toEqual([])
})

test('readConfig: ignores variables of other programs', () => {
  expect(problemsOf({ PATH: '/bin', OTEL_METRICS_EXPORTER: 'none', IDEMPOTENCY_OTHER: '1' })).toEqual([])
})

describe('an unknown name', () => {
  test('readConfig: the error for an unknown setting name suggests the closest known setting', () => {
    expect(problemsOf({ LATCHKEY_TRUSTED_PROXY: '10.0.0.0/8' })).toEqual([
      'LATCHKEY_TRUSTED_PROXY is not a setting: did you mean LATCHKEY_TRUSTED_PROXIES?',
    ])
  })
  test('readConfig: the problem of an unknown name without a close setting says to remove the name', () => {
    expect(problemsOf({ LATCHKEY_FLUX_CAPACITOR: 'x' })).toEqual([
      'LATCHKEY_FLUX_CAPACITOR is not a setting: remove it',
    ])
  })
  test.each([
    'LATCHKEY_API_SERVICE_HOST',
    'LATCHKEY_API_PORT_8080_TCP_ADDR',
    'LATCHKEY_API_SERVICE_PORT_HTTP',
  ])(
    'readConfig: the problem of %s, which Kubernetes sets for a Service, mentions enableServiceLinks',
    (name) => {
      expect(problemsOf({ [name]: 'x' })).toEqual([
        `${name} is not a setting; Kubernetes injected it for a Service: set enableServiceLinks: false on the pod`,
      ])
    },
  )
})

test('readConfig: mentions enableServiceLinks in the error for a port value that Kubernetes injected for a Service', () => {
  expect(problemsOf({ LATCHKEY_API_PORT: 'tcp://10.0.0.1:8080' })).toEqual([
    'LATCHKEY_API_PORT: expected a whole number from 0 to 65535; Kubernetes injected it for a Service: set enableServiceLinks: false on the pod',
  ])
})

test('readConfig: refuses LATCHKEY_DEV_DEMO together with another tenants folder', () => {
  expect(problemsOf({ LATCHKEY_DEV_DEMO: 'true' }, 'dev')).toEqual([])
  expect(problemsOf({ LATCHKEY_DEV_DEMO: 'true', LATCHKEY_TENANTS_DIR: '/t' }, 'dev')).toHaveLength(1)
})

test('readConfig: no reported problem contains the value of a setting', () => {
  const secret = 'hunter2'
  for (const [, setting] of Object.entries(settings as Record<string, Setting>)) {
    const problems = problemsOf({ [setting.env]: `\x01${secret}` }, setting.usedBy[0])
    expect(problems.length).toBeGreaterThan(0)
    expect(problems.join('\n')).not.toContain(secret)
  }
})

describe('the schema', () => {
  test('settings: the type of each setting accepts its default', () => {
    for (const setting of Object.values(settings as Record<string, Setting>)) {
      for (const text of [setting.default, ...Object.values(setting.defaultIn ?? {})]) {
        if (text !== undefined)
          expect([setting.env, setting.type.parse(text).kind]).toEqual([setting.env, 'ok'])
      }
    }
  })
  test('settings: each variable is defined once', () => {
    const names = Object.values(settings).map((setting) => setting.env)
    expect(new Set(names).size).toBe(names.length)
  })
  test('settings: `dev` uses all settings except cluster and command-line settings, and no process requires a setting that it does not use', () => {
    const ofCluster = [
      'LATCHKEY_KEY_RING_REPLACES_LOST',
      // Dev waits for its stores and brings the schema up to date itself.
      'LATCHKEY_MIGRATE_WAIT_SECONDS',
      // Dev has one operator, whose token it creates at its first start, and runs every process.
      'LATCHKEY_OPERATORS_FILE',
      'LATCHKEY_RUN_PROCESSES',
      'KUBECONFIG',
      'KUBERNETES_SERVICE_HOST',
      'KUBERNETES_SERVICE_PORT',
      'BUN_CONFIG_MAX_HTTP_REQUESTS',
    ]
    for (const setting of Object.values(settings as Record<string, Setting>)) {
      const needsCluster = setting.env.startsWith('LATCHKEY_OPERATOR_') || ofCluster.includes(setting.env)
      const isOfCommands = setting.usedBy.every((process) => process === 'latchkey')
      expect(setting.usedBy.includes('dev')).toBe(!needsCluster && !isOfCommands)
      for (const process of setting.requiredBy ?? []) expect(setting.usedBy).toContain(process)
    }
  })
})

test('printableConfig: contains set values and no secret', () => {
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

test('printableConfig: omits unknown fields', () => {
  expect(printableConfig({ other: 'secret' })).toEqual({})
})

test('settings table: has one row per setting with its default', () => {
  const rows = configTable().split('\n').slice(2)
  expect(rows).toHaveLength(Object.keys(settings).length)
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(7)
  expect(rows[0]).toBe(
    '| `LATCHKEY_API_PORT` | port | `8080` | api, run, dev | Port of the public API, `/v1/…`. |',
  )
  expect(configTable()).toContain(
    '| `LATCHKEY_KEY_RING` | id:base64 of 32 bytes, comma separated | required; dev: ',
  )
})
