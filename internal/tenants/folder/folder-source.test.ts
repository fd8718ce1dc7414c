import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SecretRead } from '../tenant-source.ts'
import { FolderSource, fileBytesMax } from './folder-source.ts'
import type { SourceProblem } from './parse-file.ts'

let root: string
let source: FolderSource
let logged: string[]

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'latchkey-folder-'))
  mkdirSync(join(root, 'tenants'))
  logged = []
  source = again()
})
afterEach(() => rmSync(root, { recursive: true }))

/** A source of a new process. */
function again(rules?: 'production'): FolderSource {
  const note = (_fields: object, message: string) => void logged.push(message)
  const log = { info: note, warn: note, error: note }
  return new FolderSource({
    tenantsDir: join(root, 'tenants'),
    secretsDir: join(root, 'secrets'),
    log,
    rules,
  })
}

interface State {
  readonly revision: number
  readonly tenants: readonly { uid: string; name: string; spec: ReturnType<typeof specOf> }[]
  readonly problems: readonly SourceProblem[]
  readonly complete: boolean
}

const specOf = (from: FolderSource) => [...from.tenants()].map(({ spec }) => spec)[0]

async function read(from = source): Promise<State> {
  const revision = await from.refresh()
  const tenants = [...from.tenants()].map(({ metadata: { uid = '', name }, spec }) => ({ uid, name, spec }))
  return { revision, tenants, problems: from.problems(), complete: from.isComplete() }
}

async function readSecret(namespace: string, name: string, from = source): Promise<SecretRead> {
  await from.refresh()
  return await secretsOf(from).readSecret(namespace, name)
}

function secretsOf(from: FolderSource) {
  return from.secretsOf({}, () => true)
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
  return (await read(from)).tenants.map(({ name }) => name).sort()
}

function valuesOf(read: SecretRead): Record<string, string> {
  return read.kind === 'found' ? Object.fromEntries(read.secret.values) : {}
}

describe('folder', () => {
  test('folder: reads the tenants of all YAML and JSON files, including several tenants per file', async () => {
    write('a.yaml', tenant('one'), tenant('two'))
    write('b.yml', tenant('three'))
    const spec = { slug: 'four', callback: { url: 'https://hooks.example/' } }
    const json = { apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', metadata: { name: 'four' }, spec }
    writeFileSync(join(root, 'tenants', 'c.json'), JSON.stringify(json))
    writeFileSync(join(root, 'tenants', 'notes.txt'), 'not: [read')
    writeFileSync(join(root, 'tenants', '.hidden.yaml'), 'not: [read')
    const state = await read()
    expect(state.problems).toEqual([])
    expect(state.complete).toBe(true)
    expect(source.fileOf({ namespace: 'shops', name: 'two' })).toBe(join(root, 'tenants', 'a.yaml'))
    expect(source.fileOf({ namespace: 'shops', name: 'four' })).toBeUndefined()
    expect(state.tenants.map(({ uid }) => uid).sort()).toEqual([
      'folder:default/four',
      'folder:shops/one',
      'folder:shops/three',
      'folder:shops/two',
    ])
  })

  test('folder: reads Secrets as text and as base64, and text takes precedence', async () => {
    write('a.yaml', secret('s', `data: {a: ${btoa('one')}, b: ${btoa('old')}}\nstringData: {b: new}`))
    expect(valuesOf(await readSecret('shops', 's'))).toEqual({ a: 'one', b: 'new' })
    expect(await readSecret('shops', 'other')).toEqual({ kind: 'missing' })
    expect(await readSecret('default', 's')).toEqual({ kind: 'missing' })
  })

  test('folder: the revision increases with each change, and only then', async () => {
    write('a.yaml', tenant('one'))
    const { revision } = await read()
    expect((await read()).revision).toBe(revision)
    write('a.yaml', tenant('one'), tenant('two'))
    expect((await read()).revision).toBeGreaterThan(revision)
    rmSync(join(root, 'tenants', 'a.yaml'))
    expect(await names()).toEqual([])
  })

  test('folder: notices that a file was replaced by another file of the same size', async () => {
    write('a.yaml', tenant('one'))
    await read()
    writeFileSync(join(root, 'tenants', '.next'), `# ${'x'.repeat(writes)}\n${tenant('two')}\n`)
    renameSync(join(root, 'tenants', '.next'), join(root, 'tenants', 'a.yaml'))
    expect(await names()).toEqual(['two'])
  })
})

describe('a broken document', () => {
  test('broken document: is reported with file, line and field, and does not affect other documents', async () => {
    write('a.yaml', tenant('one'), tenant('two', '  suspended: hunter2'), tenant('three'))
    const state = await read()
    expect(await names()).toEqual(['one', 'three'])
    expect(state.problems).toEqual([
      {
        file: join(root, 'tenants', 'a.yaml'),
        line: 16,
        field: 'spec.suspended',
        message: 'must be boolean',
      },
    ])
    expect(await source.isAbsent({ namespace: 'shops', name: 'two' })).toBe(false)
    expect(await source.isAbsent({ namespace: 'shops', name: 'four' })).toBe(true)
    expect(state.complete).toBe(true)
    expect(JSON.stringify(state)).not.toContain('hunter2')
  })

  test.each<[string, string, number, string]>([
    ['the object that lacks a field', tenant('a').replace('  slug: a\n', ''), 5, 'spec.slug'],
    [
      'a field in a list',
      tenant('a', '  providers:\n    - name: card\n    - name: Cards'),
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
  ])('broken document: the problem names the line of %s', async (_case, document, line, field) => {
    write('a.yaml', document)
    expect((await read()).problems).toMatchObject([{ line, field }])
  })

  test('broken document: its last valid content stays in force until it is fixed', async () => {
    write('a.yaml', tenant('one', '  displayName: before'), tenant('two'))
    await read()
    write('a.yaml', tenant('one', '  displayName: 5'), tenant('two', '  suspended: true'))
    const broken = await read()
    const shown = broken.tenants.map(({ name, spec }) => [name, spec?.displayName, spec?.suspended])
    expect(shown.sort()).toEqual([
      ['one', 'before', false],
      ['two', undefined, true],
    ])
    write('a.yaml', tenant('one', '  displayName: after'))
    const fixed = await read()
    expect(fixed.problems).toEqual([])
    expect(fixed.tenants.map(({ spec }) => spec?.displayName)).toEqual(['after'])
  })

  test.each([
    ['a separator at the end', ['---', '']],
    ['only comments', ['# nothing', '---', '# here']],
    ['nothing between two separators', ['', '']],
  ])('empty document of %s: causes no problem, and the folder stays complete', async (_case, empty) => {
    write('a.yaml', tenant('one'), ...empty)
    const state = await read()
    expect(state.problems).toEqual([])
    expect(state.complete).toBe(true)
    expect(state.tenants.map(({ name }) => name)).toEqual(['one'])
  })

  test('broken document without a name: the whole previous content of its file stays in force', async () => {
    write('a.yaml', tenant('one'), tenant('two'))
    await read()
    write('a.yaml', tenant('one'), 'kind: Tenant')
    expect(await names()).toEqual(['one', 'two'])
    expect((await read()).complete).toBe(true)
    const fresh = again()
    expect(await names(fresh)).toEqual(['one'])
    expect((await read(fresh)).complete).toBe(false)
  })

  test('broken Secret: is reported as unreadable, not as missing', async () => {
    write('a.yaml', secret('s', 'stringData: 5'))
    expect(await readSecret('shops', 's')).toMatchObject({ kind: 'unreadable', reason: 'FileBroken' })
    expect(await readSecret('shops', 'other')).toEqual({ kind: 'missing' })
  })
})

describe('a file that cannot be read', () => {
  test.each<[string, string, string]>([
    ['broken syntax', 'a: [1,\nb: 2', 'is not YAML'],
    ['a repeated key', 'a: 1\na: 2', 'is not YAML at column 1: DUPLICATE_KEY'],
    ['too many bytes', `# ${'x'.repeat(fileBytesMax)}`, 'is larger than'],
    ['too many documents', '---\na: 1\n'.repeat(1_001), 'has more than 1000 documents'],
    ['exploding aliases', explodingYaml(), 'has too many aliases'],
  ])('unreadable file with %s: is reported, and its tenants stay', async (_case, text, message) => {
    write('b.yaml', tenant('two'))
    write('a.yaml', tenant('one'))
    await read()
    writeFileSync(join(root, 'tenants', 'a.yaml'), text)
    const state = await read()
    expect(state.problems[0]?.message).toContain(message)
    expect(await names()).toEqual(['one', 'two'])
    const fresh = again()
    expect(await names(fresh)).toEqual(['two'])
    expect((await read(fresh)).complete).toBe(false)
    expect(await readSecret('shops', 'any', fresh)).toMatchObject({ kind: 'unreadable' })
  })

  test('unreadable file: the folder is complete again after the file is removed', async () => {
    write('a.yaml', 'a: [1,')
    expect((await read()).complete).toBe(false)
    rmSync(join(root, 'tenants', 'a.yaml'))
    expect(await read()).toMatchObject({ complete: true, problems: [] })
  })

  test('unreadable file: the problem names the line of broken syntax', async () => {
    writeFileSync(join(root, 'tenants', 'a.yaml'), 'kind: Tenant\nspec:\n  a: "unclosed\n')
    expect((await read()).problems[0]?.line).toBeGreaterThanOrEqual(3)
  })
})

test('folder: a missing folder is reported, and its tenants stay', async () => {
  write('a.yaml', tenant('one'))
  await read()
  renameSync(join(root, 'tenants'), join(root, 'moved'))
  const state = await read()
  expect(state.complete).toBe(false)
  expect(state.problems[0]?.message).toContain('ENOENT')
  expect(await names()).toEqual(['one'])
  renameSync(join(root, 'moved'), join(root, 'tenants'))
  expect(await read()).toMatchObject({ complete: true, problems: [] })
})

test('folder: a name that occurs in two files is reported, and the first file takes precedence', async () => {
  write('a.yaml', tenant('one', '  displayName: first'))
  write('b.yaml', tenant('one', '  displayName: second'))
  const state = await read()
  expect(state.tenants.map(({ spec }) => spec?.displayName)).toEqual(['first'])
  expect(state.problems).toMatchObject([
    { file: join(root, 'tenants', 'b.yaml'), line: 4, field: 'metadata.name' },
  ])
})

test('folder: a name that occurs twice in a file is reported', async () => {
  write('a.yaml', tenant('one', '  displayName: first'), tenant('one'))
  const state = await read()
  expect(state.tenants.map(({ spec }) => spec?.displayName)).toEqual(['first'])
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

  test('generated Secret: the next process finds the Secret and its owner, and only the user of a process can read its file', async () => {
    expect(await secretsOf(source).writeSecret(generated)).toEqual({ kind: 'written' })
    const read = await readSecret('shops', 'one-callback', again())
    expect(valuesOf(read)).toEqual({ signingSecret: 'whsec_generated' })
    expect(read.kind === 'found' && read.secret.owner).toEqual(generated.owner)
    expect(statSync(join(root, 'secrets', 'shops.one-callback.yaml')).mode & 0o777).toBe(0o600)
    expect(statSync(join(root, 'secrets')).mode & 0o777).toBe(0o700)
  })

  test('generated Secret: its owner can overwrite it, and reads the new content immediately', async () => {
    await secretsOf(source).writeSecret(generated)
    expect(
      await secretsOf(source).writeSecret({ ...generated, values: { signingSecret: 'whsec_other' } }),
    ).toEqual({
      kind: 'written',
    })
    expect(valuesOf(await readSecret('shops', 'one-callback'))).toEqual({
      signingSecret: 'whsec_other',
    })
  })

  test('generated Secret: never replaces a Secret of another owner', async () => {
    write('a.yaml', secret('one-callback', 'stringData: {a: mine}'))
    expect(await secretsOf(source).writeSecret(generated)).toEqual({ kind: 'taken' })
    expect(valuesOf(await readSecret('shops', 'one-callback'))).toEqual({ a: 'mine' })
  })
})

test('folder: a change calls the listener within 2 s, until the listener is removed', async () => {
  const changed = Promise.withResolvers<void>()
  await source.refresh()
  const unfollow = source.follow(() => changed.resolve())
  const changedAtMs = Date.now()
  write('a.yaml', tenant('one'))
  await changed.promise
  expect(Date.now() - changedAtMs).toBeLessThan(2_000)
  await unfollow()
})

test('folder: `callbackUrl` rewrites the URLs of callbacks and of notification receivers', async () => {
  write(
    'a.yaml',
    tenant('one', '  notifications: {url: "https://owners.example/", signingSecretRef: {name: owners}}'),
  )
  const options = { tenantsDir: join(root, 'tenants'), secretsDir: join(root, 'secrets') }
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const rewritten = new FolderSource({ ...options, log, callbackUrl: (url) => `${url}hook` })
  await rewritten.refresh()
  expect(specOf(rewritten)?.callback?.url).toBe('https://hooks.example/hook')
  expect(specOf(rewritten)?.notifications?.url).toBe('https://owners.example/hook')
})

test('folder: logs each problem once, and logs that it was fixed', async () => {
  write('a.yaml', tenant('one', '  suspended: hunter2'))
  await read()
  await read()
  write('a.yaml', tenant('one'))
  await read()
  expect(logged).toEqual([
    'manifest is invalid, so its last valid content still applies',
    'manifests were fixed',
  ])
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

describe('rules of production', () => {
  const one = { namespace: 'shops', name: 'one' }

  test('missing manifest: the tenant is absent by default', async () => {
    write('a.yaml', tenant('two'))
    expect(await source.isAbsent(one)).toBe(true)
  })

  test('missing manifest: under the rules of production, the tenant is kept, reported and counted once, until its manifest is back', async () => {
    const keeping = again('production')
    write('a.yaml', tenant('two'))
    for (const _again of [1, 2]) expect(await keeping.isAbsent(one)).toBe(false)
    expect(keeping.keptCount()).toBe(1)
    expect(logged.filter((line) => line.startsWith('tenant has no manifest'))).toHaveLength(1)
    write('a.yaml', tenant('one'))
    await keeping.refresh()
    expect(keeping.keptCount()).toBe(0)
  })

  test('missing manifest: under the rules of production, a tenant is deleted after its manifest requested deletion', async () => {
    const keeping = again('production')
    const toDelete = (answer: string) =>
      tenant('one').replace(
        'namespace: shops}',
        `namespace: shops, annotations: {latchkey.dev/delete: "${answer}"}}`,
      )
    write('a.yaml', toDelete('yes'))
    expect(await keeping.isAbsent(one)).toBe(false)
    expect(await names(keeping)).toEqual(['one'])
    write('a.yaml', toDelete('true'))
    expect(await keeping.isAbsent(one)).toBe(true)
    expect(await names(keeping)).toEqual([])
  })

  test('Secret: a file that other users can read is refused, and its last valid content stays in force', async () => {
    const strict = again('production')
    const path = join(root, 'tenants', 'a.yaml')
    write('a.yaml', secret('s', 'stringData: {a: one}'))
    chmodSync(path, 0o644)
    expect((await read(strict)).problems).toMatchObject([
      { file: path, message: expect.stringContaining('chmod o-rwx') },
    ])
    expect(await readSecret('shops', 's', strict)).toMatchObject({ kind: 'unreadable' })
    chmodSync(path, 0o640)
    expect(valuesOf(await readSecret('shops', 's', strict))).toEqual({ a: 'one' })
    write('a.yaml', secret('s', 'stringData: {a: two}'))
    chmodSync(path, 0o604)
    expect(valuesOf(await readSecret('shops', 's', strict))).toEqual({ a: 'one' })
  })

  test('file: a named pipe is refused immediately', async () => {
    write('a.yaml', tenant('one'))
    expect(Bun.spawnSync(['mkfifo', join(root, 'tenants', 'b.yaml')]).exitCode).toBe(0)
    const state = await read()
    expect(state.problems).toMatchObject([{ message: 'is not a file' }])
    expect(state.tenants.map(({ name }) => name)).toEqual(['one'])
  })

  test('missing Secret: under the rules of production, a missing Secret is reported as possibly on another machine', async () => {
    write('a.yaml', tenant('one'))
    const read = await readSecret('shops', 'one-callback', again('production'))
    expect(read).toEqual({ kind: 'missing', mayBeElsewhere: true })
  })
})
