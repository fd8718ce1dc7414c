import { expect, test } from 'bun:test'
import { tenantIdFromBytes } from '#internal/base/index.ts'
import { demoHeader, timeOf } from '#internal/dev/index.ts'
import type { RefusedNote } from '#internal/intake/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { createRefusedLines, refusedLinesPerSecondMax, repeating, welcomeText } from './welcome.ts'

const sinkUrl = 'http://127.0.0.1:8082/'
const id = tenantIdFromBytes(new Uint8Array(16))
const tenant = (name: string) => ({ id, uid: `folder:shops/${name}`, namespace: 'shops', name, slug: name })

function text(
  inForce: readonly string[],
  complaints: readonly string[] = [],
  { hasSampleKey = false, dataDir }: { readonly hasSampleKey?: boolean; readonly dataDir?: string } = {},
): string {
  const tenants = { inForce: inForce.map(tenant), complaints }
  const dashboard = 'http://127.0.0.1:8081/sign-in#token=local-token'
  return welcomeText({
    tenants,
    hasSampleKey,
    tenantsDir: '/manifests',
    dataDir,
    sinkUrl,
    dashboard,
    apiUrl: 'http://127.0.0.1:8080',
    opsUrl: 'http://127.0.0.1:9090',
  })
}

test('welcome text: lists at most ten tenants and the number of further tenants', () => {
  const names = Array.from({ length: 12 }, (_, index) => `t${index}`)
  expect(text(names.slice(0, 2))).toContain('Tenants  shops/t0, shops/t1   (/manifests)\n')
  expect(text(names)).toContain('shops/t8, shops/t9 and 2 more   (/manifests)\n')
  expect(text([])).toContain('Tenants  none   (/manifests)\n')
})

test('welcome text: lists at most ten problems', () => {
  const complaints = Array.from({ length: 12 }, (_, index) => `mistake ${index}`)
  const lines = text(['one'], complaints).split('\n')
  expect(lines.filter((line) => line.includes('! mistake'))).toHaveLength(10)
})

test('welcome text: contains no API key except the sample tenant’s', () => {
  expect(text(['one'])).toContain('-H "Authorization: Bearer $LATCHKEY_API_KEY" ')
  expect(text(['one'])).toContain('(LATCHKEY_API_KEY: an API key of your tenant)')
  expect(text(['one'], [], { hasSampleKey: true })).toContain('Bearer lk_demo_')
})

test('welcome text: names a data folder that is not the default one, quoted for a shell', () => {
  expect(text(['one'])).not.toContain('LATCHKEY_DATA_DIR')
  expect(text(['one'], [], { dataDir: "/it's/data" })).toContain(
    "\n    export LATCHKEY_DATA_DIR='/it'\\''s/data'\n\n  Has order 1",
  )
})

test('welcome text: explains how to sign in and how long the sign-in lasts', () => {
  expect(text(['one'])).toContain(`  Pages    http://127.0.0.1:8081/sign-in#token=local-token
           the dashboard. The token stays the same until the data folder is deleted. A session
           lasts 8 h, or 1 h without use, even after a restart
`)
})

test('terminal output: a line that scrolled out of view is repeated after every forty lines', () => {
  const said: string[] = []
  const say = repeating(
    (line) => said.push(line),
    () => 'here',
  )
  for (let count = 0; count < 100; count += 1) say(`line ${count}`)
  expect(said).toHaveLength(102)
  expect([said[40], said[81]]).toEqual(['here', 'here'])
})

const refused: RefusedNote = {
  tenantId: id,
  provider: 'parcelwise' as ProviderName,
  cause: 'signature_mismatch',
  headers: new Headers(),
}

test('refused lines: print provider, cause and tenant of at most 10 refused calls per second, and omit calls of the demo', () => {
  const said: string[] = []
  let nowMs = 1_795_000_000_000
  const note = createRefusedLines({
    say: (line: string) => said.push(line),
    clock: { now: () => nowMs },
    findTenant: () => ({ slug: 'parcels', name: 'p' }),
  })
  note({ ...refused, headers: new Headers({ [demoHeader]: 'taken' }) })
  expect(said).toEqual([])
  for (let count = 0; count < 15; count += 1) note(refused)
  expect(said).toHaveLength(refusedLinesPerSecondMax)
  expect(said[0]).toBe(`${timeOf(nowMs)} parcelwise refused: signature_mismatch → parcels`)
  nowMs += 1_000
  note({ ...refused, cause: 'secrets_missing' })
  expect(said.slice(refusedLinesPerSecondMax)).toEqual([
    '… and 5 more in that second',
    `${timeOf(nowMs)} parcelwise refused: secrets_missing → parcels`,
  ])
})
