import { expect, test } from 'bun:test'
import type { StoredDeclaration } from '#internal/tenants/index.ts'
import { declarationText } from './declared/shipped-declarations.ts'
import { KnownProviders, unusable } from './known-providers.ts'

const stored = (name: string, text: string, aliases: readonly string[] = []): StoredDeclaration => ({
  name,
  aliases,
  isUnverified: false,
  text,
})
const usable = declarationText({
  name: 'doors',
  body: { bytesMax: 1024, json: {} },
  headers: { signature: { names: ['X-Doors'] } },
  signature: {
    schemes: [
      { algorithm: 'hmac-sha256', signature: { header: 'signature' }, encoding: 'hex', signs: '{body}' },
    ],
  },
  event: { id: [{ json: 'id' }], type: { from: [{ json: 'kind' }] } },
})

test('known providers: compiling an invalid declaration fails and is reported once per revision, and other declarations still work', () => {
  const reports: string[] = []
  const broken = stored('gates', '{"name":"gates"}', ['portal'])
  const declarations = () => new Map([broken, stored('doors', usable)].map((each) => [each.name, each]))
  let current = declarations().set('portal', broken)
  const known = new KnownProviders(
    () => current,
    (name, cause) => reports.push(`${name} ${cause instanceof Error}`),
  )
  expect([known.find('gates'), known.find('gates'), known.find('portal')]).toEqual([
    unusable,
    unusable,
    unusable,
  ])
  expect(reports).toEqual(['gates true'])
  expect(known.find('doors')).toMatchObject({ name: 'doors' })

  current = declarations()
  expect([known.find('gates'), reports]).toEqual([unusable, ['gates true', 'gates true']])
  current = new Map([['gates', stored('gates', usable)]])
  expect(known.find('gates')).toMatchObject({ name: 'gates' })
})

test.each([
  ['is not JSON', '{'],
  ['has an algorithm of a later version', usable.replace('hmac-sha256', 'a-later-one')],
  ['has a template variable of a later version', usable.replace('{body}', '{a-later-one}')],
])('known providers: a stored declaration that %s is reported', (_what, text) => {
  const reports: string[] = []
  const known = new KnownProviders(
    () => new Map([['gates', stored('gates', text)]]),
    (name) => reports.push(name),
  )
  expect([known.find('gates'), reports]).toEqual([unusable, ['gates']])
})
