// Runs the vectors of every shipped declaration, and calls derived from them.
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { providerNames } from '#internal/tenants/index.ts'
import { eventTypeTexts } from '../catalogue.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'
import type { Declaration } from './schema.ts'
import { findShipped, shippedNames } from './shipped-declarations.ts'
import { tamperedCalls } from './tamper.ts'
import { callOf, outcomeOf, runVectors } from './vectors.ts'

const folder = `${import.meta.dir}/../../../config/providers`
const declarations = readdirSync(folder)
  .filter((file) => file.endsWith('.yaml'))
  .map((file) => [file.replace('.yaml', ''), read(file)] as const)

function read(file: string): Declaration {
  const parsed = parseProvider(parse(readFileSync(`${folder}/${file}`, 'utf8')))
  if (parsed.kind === 'invalid') throw new Error(`${file}: ${JSON.stringify(parsed.problems)}`)
  return parsed.declaration
}

test.each(declarations)(
  'shipped declaration %s: has the name of its file, a source, and a vector of an event',
  (name, declaration) => {
    expect(declaration.name).toBe(name)
    expect(declaration.sources).not.toBeEmpty()
    const events = declaration.vectors?.filter(({ expect: { type } }) => type !== undefined)
    expect(events).not.toBeEmpty()
    const isFromVendor = declaration.vectors?.some(({ source }) => source !== undefined)
    expect(declaration.unverified ?? false).toBe(!isFromVendor)
  },
)

test.each(declarations)(
  'shipped declaration %s: all vectors pass, and every altered copy of a call is refused',
  (_name, declaration) => {
    expect(runVectors(declaration)).toEqual([])
  },
)

test.each(declarations)(
  'shipped declaration %s: at least four altered calls are made from each event',
  (_name, declaration) => {
    for (const vector of declaration.vectors ?? []) {
      if (vector.expect.type === undefined) continue
      const changes = tamperedCalls(declaration, { ...vector, call: callOf(vector), isEvent: true })
      expect(changes.length).toBeGreaterThanOrEqual(4)
    }
  },
)

test.each(declarations)(
  'shipped declaration %s: every normalized type is in the catalogue',
  (_name, declaration) => {
    expect(
      declaration.types?.map(({ type }) => type).filter((type) => !eventTypeTexts.has(type)) ?? [],
    ).toEqual([])
  },
)

test.each(declarations)(
  'shipped declaration %s: no handshake returns a valid signature of an event',
  (_name, declaration) => {
    const provider = compileDeclaration(declaration)
    for (const vector of declaration.vectors ?? []) {
      const text = Buffer.from(callOf(vector).body).toString()
      for (const handshake of declaration.handshakes ?? []) {
        const path = handshake.challenge?.json
        if (!handshake.hmac || path === undefined) continue
        const [first = '', ...rest] = path.split('.').toReversed()
        const inner = rest.reduce<object>((value, name) => ({ [name]: value }), { [first]: text })
        const conditions = Object.fromEntries(
          handshake.when?.map((each) => [each.path, each.values?.[0]]) ?? [],
        )
        const body = Buffer.from(JSON.stringify({ ...conditions, ...inner }))
        const call = { ...callOf(vector), body }
        expect(outcomeOf(provider, call, vector)).toMatchObject({ cause: 'signature_malformed' })
      }
    }
  },
)

test('README.md and docs/comparison.md: state the correct numbers of shipped and of verified declarations', () => {
  const read = (path: string) =>
    readFileSync(`${import.meta.dir}/../../../${path}`, 'utf8').replaceAll('\n', ' ')
  const verified = shippedNames.filter((name) => findShipped(name)?.isUnverified === false).length
  const [all, builtIn, declared] = [
    shippedNames.length + providerNames.length,
    providerNames.length,
    shippedNames.length,
  ]
  const comparison = read('docs/comparison.md')
  expect(comparison).toContain(
    `The ${all} vendors of Latchkey are ${builtIn} built-in providers (one only for trials) and ${declared} [declarations]`,
  )
  expect(comparison).toContain(`${verified} of the declarations are verified`)
  expect(read('README.md')).toContain(
    `of our ${all}, ${builtIn} are built in and ${declared} declared, of which ${verified} are verified`,
  )
})
