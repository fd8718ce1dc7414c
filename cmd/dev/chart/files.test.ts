import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { type ProcessName, settings } from '#internal/config/settings.ts'
import { crdFiles } from '#internal/tenants/index.ts'
import { chartFiles } from './files.ts'
import { type Group, isValue, type Keys, type Value } from './kinds.ts'
import { chartValues } from './values.ts'

const root = resolve(import.meta.dir, '../../..')
const read = (path: string) => readFileSync(resolve(root, path), 'utf8')
const validate = new Ajv({ allErrors: true, strict: false }).compile(
  JSON.parse(read('charts/latchkey/values.schema.json')) as object,
)

describe('the generated files of the chart', () => {
  test.each(chartFiles().map(({ path, text }) => [path, text] as const))(
    '%s is what is written here: run npm run generate',
    (path, text) => {
      expect(read(path)).toBe(text)
    },
  )

  test('hold all that a cluster has to know before it takes Tenants', () => {
    expect(readdirSync(resolve(root, 'charts/latchkey/files/crds')).toSorted()).toEqual(
      crdFiles()
        .map(({ name }) => name)
        .toSorted(),
    )
  })

  test('leave the definition of Tenants where it is when the release goes', () => {
    const { metadata } = parse(read('charts/latchkey/files/crds/latchkey.dev_tenants.yaml')) as {
      metadata: { annotations: Record<string, string> }
    }
    expect(metadata.annotations['helm.sh/resource-policy']).toBe('keep')
  })
})

/** Every key with its path. */
function flatten(keys: Keys, path: string[] = []): [string, Value | Group][] {
  return Object.entries(keys).flatMap(([name, node]) => {
    const here = [...path, name]
    return [[here.join('.'), node] as const, ...(isValue(node) ? [] : flatten(node.keys, here))] as [
      string,
      Value | Group,
    ][]
  })
}

describe('values', () => {
  test('by default are as the schema has them', () => {
    expect([validate(parse(read('charts/latchkey/values.yaml'))), validate.errors]).toEqual([true, null])
  })

  test.each(flatten(chartValues))('%s is explained, in words that end', (_path, { doc }) => {
    expect(doc).toMatch(/^[A-Z].{5,}[.]$/)
  })

  test.each(flatten(chartValues).filter(([, node]) => !isValue(node)))(
    '%s refuses a key that it does not know',
    (path, node) => {
      const misspelt = path.split('.').reduceRight<object>((inner, name) => ({ [name]: inner }), { odd: 1 })
      expect([path, validate(misspelt)]).toEqual([path, !isValue(node) && node.isOpen === true])
    },
  )

  test.each<[string, object]>([
    ['at the top', { odd: 1 }],
    ['a number as text', { api: { replicas: '2' } }],
    ['a number below its bound', { config: { recordBodyBytesMax: 0 } }],
    ['a word that is none of a choice', { config: { logLevel: 'loud' } }],
    ['a port of callbacks over 65535', { config: { callbackPorts: [65_536] } }],
    ['a network that is a name', { config: { callbackCidrsMax: ['localhost'] } }],
    ['a store of another kind', { database: { url: 'mysql://host/db' } }],
    ['a digest that is none', { image: { digest: 'latest' } }],
    ['a trial of the reserved provider', { config: { gatewaySandbox: true } }],
  ])('refuse %s', (_what, values) => {
    expect(validate(values)).toBe(false)
  })

  test('take any key of charts around this one', () => {
    expect(validate({ global: { theirs: { a: 1 } }, enabled: false })).toBe(true)
  })
})

/** The values that stand for settings, by environment name. */
const standsFor: Readonly<Record<string, Value | Group | undefined>> = {
  LATCHKEY_LOG_LEVEL: valueAt('config.logLevel'),
  IDEMPOTENCY_MAX_RECORD_TTL_SECONDS: valueAt('config.recordTtlSecondsMax'),
  IDEMPOTENCY_MAX_RECORD_BODY_BYTES: valueAt('config.recordBodyBytesMax'),
  LATCHKEY_SIGNATURE_MAX_AGE_SECONDS: valueAt('config.signatureMaxAgeSeconds'),
  LATCHKEY_REDIS_SPOOL_DURABLE: valueAt('config.redisSpoolDurable'),
  LATCHKEY_SHUTDOWN_DELAY_SECONDS: valueAt('api.shutdownDelaySeconds'),
  LATCHKEY_SHUTDOWN_GRACE_SECONDS: valueAt('api.shutdownGraceSeconds'),
  LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE: valueAt('operator.secrets.clusterWide'),
  OTEL_TRACES_SAMPLER_ARG: valueAt('config.traces.sampleShare'),
}

function valueAt(path: string): Value | Group | undefined {
  return new Map(flatten(chartValues)).get(path)
}

const deployed: readonly ProcessName[] = ['api', 'forwarder', 'operator', 'backoffice', 'migrate']
const listed = Object.values(settings).flatMap((setting) =>
  setting.usedBy.some((name) => deployed.includes(name)) ? [setting] : [],
)

test.each(listed.filter(({ env }) => env in standsFor).map((setting) => [setting.env, setting] as const))(
  '%s has the same default in the chart as in the program',
  (env, setting) => {
    const value = standsFor[env]
    if (value === undefined || !isValue(value)) throw new Error('there is no such value')
    expect(String(value.default)).toBe('default' in setting ? setting.default : '')
  },
)
