import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SecretRead, TenantSource } from '../source.ts'
import { fileBytesMax } from './folder-reader.ts'
import { createFolderSource } from './folder-source.ts'

let root: string
let source: TenantSource

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'latchkey-folder-'))
  mkdirSync(join(root, 'tenants'))
  source = again()
})
afterEach(() => rmSync(root, { recursive: true }))

/** What a process that starts now would read with. */
function again(): TenantSource {
  return createFolderSource({ tenantsDir: join(root, 'tenants'), secretsDir: join(root, 'secrets') })
}

let writes = 0
function write(name: string, ...documents: string[]): void {
  writes += 1
  writeFileSync(join(root, 'tenants', name), `# ${'x'.repeat(writes)}\n${documents.join('\n---\n')}\n`)
}

const tenant = (name: string, spec = '', namespace = 'shops') => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  slug: ${name}
  callback: {url: "https://hooks.example/"}
${spec}`

const secret = (name: string, body: string) => `apiVersion: v1
kind: Secret
metadata: {name: ${name}, namespace: shops}
${body}`

async function names(from = source): Promise<string[]> {
  return (await from.read()).tenants.map(({ name }) => name).sort()
}

function valuesOf(read: SecretRead): Record<string, string> {
  return read.kind === 'found' ? Object.fromEntries(read.secret.values) : {}
}

describe('a folder', () => {
  test('gives the tenants of all its YAML and JSON files, several to a file', async () => {
    write('a.yaml', tenant('one'), tenant('two'))
    write('b.yml', tenant('three'))
    const spec = { slug: 'four', callback: { url: 'https://hooks.example/' } }
    const json = { apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', metadata: { name: 'four' }, spec }
    writeFileSync(join(root, 'tenants', 'c.json'), JSON.stringify(json))
    writeFileSync(join(root, 'tenants', 'notes.txt'), 'not: [read')
    writeFileSync(join(root, 'tenants', '.hidden.yaml'), 'not: [read')
    const state = await source.read()
    expect(state.problems).toEqual([])
    expect(state.complete).toBe(true)
    expect(state.tenants.map(({ uid }) => uid).sort()).toEqual([
      'folder:default/four',
      'folder:shops/one',
      'folder:shops/three',
      'folder:shops/two',
    ])
  })

  test('takes Secrets as text and as base64, of which text wins', async () => {
    write('a.yaml', secret('s', `data: {a: ${btoa('one')}, b: ${btoa('old')}}\nstringData: {b: new}`))
    expect(valuesOf(await source.readSecret('shops', 's'))).toEqual({ a: 'one', b: 'new' })
    expect(await source.readSecret('shops', 'other')).toEqual({ kind: 'missing' })
    expect(await source.readSecret('default', 's')).toEqual({ kind: 'missing' })
  })

  test('keeps its revision while nothing changes, and raises it when something does', async () => {
    write('a.yaml', tenant('one'))
    const { revision } = await source.read()
    expect((await source.read()).revision).toBe(revision)
    write('a.yaml', tenant('one'), tenant('two'))
    expect((await source.read()).revision).toBeGreaterThan(revision)
    rmSync(join(root, 'tenants', 'a.yaml'))
    expect(await names()).toEqual([])
  })

  test('notices a file that was replaced by another of the same size', async () => {
    write('a.yaml', tenant('one'))
    await source.read()
    writeFileSync(join(root, 'tenants', '.next'), `# ${'x'.repeat(writes)}\n${tenant('two')}\n`)
    renameSync(join(root, 'tenants', '.next'), join(root, 'tenants', 'a.yaml'))
    expect(await names()).toEqual(['two'])
  })
})

describe('a broken document', () => {
  test('is reported with file, line and field, and leaves the others alone', async () => {
    write('a.yaml', tenant('one'), tenant('two', '  suspended: hunter2'), tenant('three'))
    const state = await source.read()
    expect(await names()).toEqual(['one', 'three'])
    expect(state.problems).toEqual([
      {
        file: join(root, 'tenants', 'a.yaml'),
        line: 16,
        field: 'spec.suspended',
        message: 'must be boolean',
      },
    ])
    expect(state.heldUids).toEqual(new Set(['folder:shops/two']))
    expect(state.complete).toBe(true)
    expect(JSON.stringify(state)).not.toContain('hunter2')
  })

  test.each<[string, string, number, string]>([
    ['a missing field by what is around it', tenant('a').replace('  slug: a\n', ''), 5, 'spec.slug'],
    [
      'a field in a list',
      tenant('a', '  providers:\n    - name: card\n    - name: cards'),
      10,
      'spec.providers[1].name',
    ],
    ['an unknown field', tenant('a', '  retention:\n    days: 3'), 9, 'spec.retention.days'],
    [
      'a rule between fields',
      tenant('a', '  retention:\n    payloadDays: 4\n    eventDays: 3'),
      9,
      'spec.retention.payloadDays',
    ],
    ['an unknown kind', tenant('a').replace('kind: Tenant', 'kind: Tennant'), 3, 'kind'],
    ['a Secret with a bad value', secret('s', 'data:\n  a: "%%"'), 6, 'data.a'],
    ['a Secret with a number', secret('s', 'stringData:\n  a: 5'), 6, 'stringData.a'],
  ])('names the line of %s', async (_case, document, line, field) => {
    write('a.yaml', document)
    expect((await source.read()).problems).toMatchObject([{ line, field }])
  })

  test('keeps its last good content until it is mended', async () => {
    write('a.yaml', tenant('one', '  displayName: before'), tenant('two'))
    await source.read()
    write('a.yaml', tenant('one', '  displayName: 5'), tenant('two', '  suspended: true'))
    const broken = await source.read()
    const shown = broken.tenants.map(({ name, spec }) => [name, spec.displayName, spec.suspended])
    expect(shown.sort()).toEqual([
      ['one', 'before', false],
      ['two', undefined, true],
    ])
    write('a.yaml', tenant('one', '  displayName: after'))
    const mended = await source.read()
    expect(mended.problems).toEqual([])
    expect(mended.tenants.map(({ spec }) => spec.displayName)).toEqual(['after'])
  })

  test.each([
    ['a separator at the end', ['---', '']],
    ['comments alone', ['# nothing', '---', '# here']],
    ['nothing between two separators', ['', '']],
  ])('is not one of %s, and the folder stays complete', async (_case, empty) => {
    write('a.yaml', tenant('one'), ...empty)
    const state = await source.read()
    expect(state.problems).toEqual([])
    expect(state.complete).toBe(true)
    expect(state.tenants.map(({ name }) => name)).toEqual(['one'])
  })

  test('without a name holds on to everything that the file had', async () => {
    write('a.yaml', tenant('one'), tenant('two'))
    await source.read()
    write('a.yaml', tenant('one'), 'kind: Tenant')
    expect(await names()).toEqual(['one', 'two'])
    expect((await source.read()).complete).toBe(true)
    const fresh = again()
    expect(await names(fresh)).toEqual(['one'])
    expect((await fresh.read()).complete).toBe(false)
  })

  test('of a Secret does not look like a missing Secret', async () => {
    write('a.yaml', secret('s', 'stringData: 5'))
    expect(await source.readSecret('shops', 's')).toMatchObject({ kind: 'unreadable', reason: 'FileBroken' })
    expect(await source.readSecret('shops', 'other')).toEqual({ kind: 'missing' })
  })
})

describe('a file that cannot be read', () => {
  test.each<[string, string, string]>([
    ['broken syntax', 'a: [1,\nb: 2', 'is no YAML'],
    ['a key twice', 'a: 1\na: 2', 'is no YAML at column 1: DUPLICATE_KEY'],
    ['too large', `# ${'x'.repeat(fileBytesMax)}`, 'is over'],
    ['too many documents', '---\na: 1\n'.repeat(1_001), 'holds over 1000 documents'],
    ['exploding aliases', explodingYaml(), 'repeats too much'],
  ])('for %s is reported and does not count as empty', async (_case, text, message) => {
    write('b.yaml', tenant('two'))
    write('a.yaml', tenant('one'))
    await source.read()
    writeFileSync(join(root, 'tenants', 'a.yaml'), text)
    const state = await source.read()
    expect(state.problems[0]?.message).toContain(message)
    expect(await names()).toEqual(['one', 'two'])
    const fresh = again()
    expect(await names(fresh)).toEqual(['two'])
    expect((await fresh.read()).complete).toBe(false)
    expect(await fresh.readSecret('shops', 'any')).toMatchObject({ kind: 'unreadable' })
  })

  test('is counted again once it is gone', async () => {
    write('a.yaml', 'a: [1,')
    expect((await source.read()).complete).toBe(false)
    rmSync(join(root, 'tenants', 'a.yaml'))
    expect(await source.read()).toMatchObject({ complete: true, problems: [] })
  })

  test('names the line of broken syntax', async () => {
    writeFileSync(join(root, 'tenants', 'a.yaml'), 'kind: Tenant\nspec:\n  a: "unclosed\n')
    expect((await source.read()).problems[0]?.line).toBeGreaterThanOrEqual(3)
  })
})

test('a folder that is not there is a problem, not an empty folder', async () => {
  write('a.yaml', tenant('one'))
  await source.read()
  renameSync(join(root, 'tenants'), join(root, 'moved'))
  const state = await source.read()
  expect(state.complete).toBe(false)
  expect(state.problems[0]?.message).toContain('ENOENT')
  expect(await names()).toEqual(['one'])
  renameSync(join(root, 'moved'), join(root, 'tenants'))
  expect(await source.read()).toMatchObject({ complete: true, problems: [] })
})

test('one name in two files is reported, and the first file’s counts', async () => {
  write('a.yaml', tenant('one', '  displayName: first'))
  write('b.yaml', tenant('one', '  displayName: second'))
  const state = await source.read()
  expect(state.tenants.map(({ spec }) => spec.displayName)).toEqual(['first'])
  expect(state.problems).toMatchObject([
    { file: join(root, 'tenants', 'b.yaml'), line: 4, field: 'metadata.name' },
  ])
})

test('one name twice in a file is reported', async () => {
  write('a.yaml', tenant('one', '  displayName: first'), tenant('one'))
  const state = await source.read()
  expect(state.tenants.map(({ spec }) => spec.displayName)).toEqual(['first'])
  expect(state.problems).toMatchObject([{ line: 12, field: 'metadata.name' }])
})

describe('a generated Secret', () => {
  const generated = {
    namespace: 'shops',
    name: 'one-callback',
    values: { signingSecret: 'whsec_generated' },
    annotations: { 'latchkey.dev/content': 'hash' },
    cause: 'missing' as const,
    replaces: undefined,
    owner: { uid: 'folder:shops/one', name: 'one' },
  }

  test('is found by the next start, with its owner, and only its user may read it', async () => {
    expect(await source.writeSecret(generated)).toEqual({ kind: 'written' })
    const read = await again().readSecret('shops', 'one-callback')
    expect(valuesOf(read)).toEqual({ signingSecret: 'whsec_generated' })
    expect(read.kind === 'found' && read.secret.owner).toEqual(generated.owner)
    expect(statSync(join(root, 'secrets', 'shops.one-callback.yaml')).mode & 0o777).toBe(0o600)
    expect(statSync(join(root, 'secrets')).mode & 0o777).toBe(0o700)
  })

  test('may be written again by its owner and is read at once', async () => {
    await source.writeSecret(generated)
    expect(await source.writeSecret({ ...generated, values: { signingSecret: 'whsec_other' } })).toEqual({
      kind: 'written',
    })
    expect(valuesOf(await source.readSecret('shops', 'one-callback'))).toEqual({
      signingSecret: 'whsec_other',
    })
  })

  test('never replaces a Secret of somebody else', async () => {
    write('a.yaml', secret('one-callback', 'stringData: {a: mine}'))
    expect(await source.writeSecret(generated)).toEqual({ kind: 'taken' })
    expect(valuesOf(await source.readSecret('shops', 'one-callback'))).toEqual({ a: 'mine' })
  })
})

test('a change is hinted at, until nobody listens any more', async () => {
  const hinted = Promise.withResolvers<void>()
  const stop = source.onHint(hinted.resolve)
  write('a.yaml', tenant('one'))
  await hinted.promise
  stop()
  chmodSync(join(root, 'tenants'), 0o755)
})

function explodingYaml(): string {
  const lines = ['a0: &a0 [x,x,x,x,x,x,x,x,x]']
  for (let level = 1; level < 12; level += 1) {
    lines.push(
      `a${level}: &a${level} [${Array(9)
        .fill(`*a${level - 1}`)
        .join()}]`,
    )
  }
  return lines.join('\n')
}
