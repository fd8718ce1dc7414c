// Tests the archives of `npm run build`. Bun downloads the runtimes of other platforms from the npm registry.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { buildRelease } from '#cmd/dev/build.ts'
import { hasValidHashes } from '#cmd/dev/release/mach-o.ts'
import { runToEnd } from '#test/support/clients/client-scene.ts'
import { version } from '../../../package.json'

const root = resolve(import.meta.dir, '../../..')
/** First bytes of the file, and value and offset of its machine: ELF's e_machine, Mach-O's cputype. */
const platforms = {
  'linux-x64': { magic: 0x464c457f, machine: 0x3e, offset: 18 },
  'linux-arm64': { magic: 0x464c457f, machine: 0xb7, offset: 18 },
  'darwin-x64': { magic: 0xfeedfacf, machine: 0x0007, offset: 4 },
  'darwin-arm64': { magic: 0xfeedfacf, machine: 0x000c, offset: 4 },
} as const
type Target = keyof typeof platforms
const ownTarget = `${process.platform}-${process.arch}` as Target
/** This platform's, and those with a signature. The image is tested for both architectures of Linux. */
const targets = [...new Set<Target>([ownTarget, 'darwin-x64', 'darwin-arm64'])]
const archiveOf = (target: string) => `latchkey-${version}-${target}.tar.gz`

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'latchkey-build-'))
  await buildRelease(join(folder, 'all'), targets)
  for (const target of targets) {
    mkdirSync(join(folder, target))
    await runToEnd(['tar', '-xzf', join(folder, 'all', archiveOf(target)), '-C', join(folder, target)])
  }
}, 240_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(targets)(
  'build: the archive for %s contains an executable for this platform, and the licences',
  async (target) => {
    const { output } = await runToEnd(['tar', '-tvzf', join(folder, 'all', archiveOf(target))])
    expect(output.trim().split('\n')).toEqual([
      expect.stringMatching(/^-rwxr-xr-x .* latchkey$/),
      expect.stringMatching(/^-rw-r--r-- .* LICENSE$/),
      expect.stringMatching(/^-rw-r--r-- .* THIRD_PARTY_NOTICES\.md$/),
    ])
    for (const name of ['LICENSE', 'THIRD_PARTY_NOTICES.md'])
      expect(readFileSync(join(folder, target, name), 'utf8')).toBe(readFileSync(join(root, name), 'utf8'))
    const program = readFileSync(join(folder, target, 'latchkey'))
    const { magic, machine, offset } = platforms[target]
    expect([program.readUInt32LE(0), program.readUInt16LE(offset)]).toEqual([magic, machine])
    if (target.startsWith('darwin-')) expect(hasValidHashes(program)).toBe(true)
  },
)

test('build: the program for this platform prints its version', async () => {
  expect(await runToEnd([join(folder, ownTarget, 'latchkey'), '--version'])).toEqual({
    exitCode: 0,
    output: `${version}\n`,
  })
})

test('build: SHA256SUMS has the hash of each archive', async () => {
  const lines = readFileSync(join(folder, 'all', 'SHA256SUMS'), 'utf8')
    .trim()
    .split('\n')
  expect(lines).toEqual(
    targets.toSorted().map((target) => {
      const bytes = readFileSync(join(folder, 'all', archiveOf(target)))
      return `${new Bun.CryptoHasher('sha256').update(bytes).digest('hex')}  ${archiveOf(target)}`
    }),
  )
})

test('build: identical sources produce identical archives', async () => {
  const again = join(folder, 'again')
  const target = 'darwin-x64'
  await buildRelease(again, [target])
  const read = (where: string) => readFileSync(join(where, archiveOf(target)))
  expect(read(again).equals(read(join(folder, 'all')))).toBe(true)
}, 60_000)

test('build: an unknown target is refused with a list of all targets', async () => {
  const command = ['npm', 'run', '--silent', 'build', '--', '--target', 'windows-x64']
  const { exitCode, output } = await runToEnd(command)
  expect([exitCode, output]).toEqual([
    2,
    'unknown target windows-x64\nusage: npm run build -- [--target linux-x64|linux-arm64|darwin-x64|darwin-arm64|npm]...\n',
  ])
})
