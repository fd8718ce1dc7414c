import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { packSite } from '#internal/dashboard/index.ts'
import { sharedFiles } from './links.ts'
import { docsFolder, repositoryRoot } from './pages.ts'

/** Folder with the packages and the configuration of the site generator. */
export const generatorFolder = join(docsFolder, '.vitepress')
/** Archive of the site, which the bundler compiles into the program (`internal/dashboard/documentation`). */
export const siteArchive = join(repositoryRoot, '.latchkey/docs/site.bin')
const builtFrom = join(repositoryRoot, '.latchkey/docs/site.inputs')

/** Installs the packages of the lock file, unless they are installed. */
export async function installGenerator(): Promise<void> {
  const stamp = join(generatorFolder, 'node_modules/.latchkey-stamp')
  const wanted = hashOf(['package.json', 'bun.lock'].map((name) => join(generatorFolder, name)))
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  await runBun(['install', '--frozen-lockfile', '--ignore-scripts'])
  writeFileSync(stamp, wanted)
}

/**
 * Builds the site into its archive if pages, files that they link to, or the generator changed. Makes no network requests after the
 * packages are installed.
 * @returns the files of the site by path, or undefined if the archive is up to date
 * @throws with the output of the generator
 */
export async function buildSite(): Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>> | undefined> {
  const inputs = hashOf(inputFiles())
  if (existsSync(siteArchive) && existsSync(builtFrom) && readFileSync(builtFrom, 'utf8') === inputs)
    return undefined
  await installGenerator()
  const scratch = join(repositoryRoot, '.latchkey/docs')
  mkdirSync(scratch, { recursive: true })
  const out = mkdtempSync(join(scratch, 'out-'))
  try {
    await runBun([...generator, 'build', '..', '--outDir', out])
    const files = new Map(
      readdirSync(out, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .filter((path) => !/\/(hashmap\.json|repository\/\[file\]\.html)$/.test(path))
        .map((path) => [path.slice(out.length + 1), new Uint8Array(readFileSync(path))] as const),
    )
    writeFileSync(`${siteArchive}.new`, packSite(files))
    renameSync(`${siteArchive}.new`, siteArchive)
    writeFileSync(builtFrom, inputs)
    return files
  } finally {
    rmSync(out, { recursive: true })
  }
}

/** Serves the site until the process is stopped, and reloads pages on change. */
export async function serveSite(args: readonly string[]): Promise<void> {
  await installGenerator()
  const child = Bun.spawn([process.execPath, ...generator, 'dev', '..', ...args], {
    cwd: generatorFolder,
    stdio: ['inherit', 'inherit', 'inherit'],
  })
  process.exitCode = await child.exited
}

// With `--no-install`, Bun does not take packages from its cache for files above the folder with the packages.
const generator = ['--no-install', '--bun', 'node_modules/vitepress/bin/vitepress.js']

async function runBun(args: readonly string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: generatorFolder,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new Error(`${args.slice(-3).join(' ')} failed:\n${out}${err}`)
}

function inputFiles(): string[] {
  const below = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !/\/\.vitepress\/(node_modules|cache|\.temp|dist)\//.test(path))
  const shared = sharedFiles().map(({ path }) => join(repositoryRoot, path))
  const isFile = (path: string) => !existsSync(join(path, '.'))
  return [...below(docsFolder), ...below(import.meta.dir), ...shared.filter(isFile)].toSorted()
}

function hashOf(paths: readonly string[]): string {
  const hash = createHash('sha256').update(Bun.version)
  for (const path of paths)
    hash.update(path.replace(repositoryRoot, '')).update('\0').update(readFileSync(path))
  return hash.digest('hex')
}
