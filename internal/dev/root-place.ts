import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { listProcesses } from './processes.ts'

/**
 * What the user that Postgres runs as has to reach while the data folder or the clone is closed to it:
 *   <hash>          the home of one data folder's database
 *   <hash>.origin   the link in that data folder which points to it
 *   programs-<v>    Postgres' programs, shared
 */
const rootPlace = '/var/lib/latchkey-dev'

/**
 * Makes `near` a link to a data folder's home in the root's place, and gives that home, which the caller makes. Where the
 * link is not there yet, what an earlier folder of the same name left is removed; so is what removed folders left.
 */
export async function linkRootHome(dataDir: string, near: string): Promise<string> {
  const home = homeOf(dataDir)
  await mkdir(rootPlace, { recursive: true, mode: 0o755 })
  await writeFile(`${home}.origin`, near)
  if ((await readlink(near).catch(() => undefined)) !== home) {
    await rm(near, { force: true })
    await rm(home, { recursive: true, force: true })
    await symlink(home, near)
  }
  await removeForsakenHomes()
  return home
}

/** Removes a data folder's home in the root's place. */
export async function removeRootHome(dataDir: string): Promise<void> {
  const home = homeOf(dataDir)
  await rm(home, { recursive: true, force: true })
  await rm(`${home}.origin`, { force: true })
}

/** Copies Postgres' programs where everybody can run them, once for each version, and gives that folder. */
export async function copyToRootPlace(native: string, onProgress?: (line: string) => void): Promise<string> {
  const { version } = (await Bun.file(join(native, '..', 'package.json')).json()) as { version: string }
  const copy = join(rootPlace, `programs-${version}`)
  if (existsSync(copy)) return copy
  onProgress?.(`Only root may enter ${native}: copying Postgres' programs to ${copy}`)
  // Aside and then renamed, so that a copy cut short or made twice at once is never taken for a whole one.
  const part = `${copy}.${process.pid}.part`
  await mkdir(part, { recursive: true, mode: 0o755 })
  await cp(native, part, { recursive: true, verbatimSymlinks: true })
  Bun.spawnSync(['chmod', '-R', 'a+rX', part])
  await rename(part, copy).catch(async (error: unknown) => {
    await rm(part, { recursive: true, force: true })
    if (!existsSync(copy)) throw error
  })
  return copy
}

function homeOf(dataDir: string): string {
  return join(rootPlace, createHash('sha256').update(dataDir).digest('hex').slice(0, 16))
}

/** A data folder that was removed by hand leaves its home; nothing else would ever remove that. */
async function removeForsakenHomes(): Promise<void> {
  const processes = await listProcesses()
  for (const name of await readdir(rootPlace)) {
    if (!name.endsWith('.origin')) continue
    const origin = join(rootPlace, name)
    const home = origin.slice(0, -'.origin'.length)
    const near = await readFile(origin, 'utf8').catch(() => '')
    const linked = (await readlink(near).catch(() => undefined)) === home
    if (linked || processes.some(({ command }) => command.includes(`${home}/`))) continue
    await rm(home, { recursive: true, force: true })
    await rm(origin, { force: true })
  }
}
