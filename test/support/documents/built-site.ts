import { mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { buildSite, siteArchive } from '#cmd/dev/docs/site.ts'
import { type SiteFile, unpackSite } from '#internal/dashboard/index.ts'
import { lockFolder } from '#internal/dev/index.ts'

const buildMsMax = 240_000

/** Builds the documentation site unless it is up to date, once for all test processes. Returns its files by path. */
export async function builtSite(): Promise<ReadonlyMap<string, SiteFile>> {
  const folder = dirname(siteArchive)
  mkdirSync(folder, { recursive: true })
  const locked = lockFolder(folder, buildMsMax)
  if (locked.kind === 'taken') throw new Error(`process ${locked.pid} builds the documentation`)
  try {
    await buildSite()
  } finally {
    locked.lock.release()
  }
  return unpackSite(new Uint8Array(readFileSync(siteArchive)))
}
