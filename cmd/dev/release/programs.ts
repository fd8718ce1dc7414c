import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { version } from '../../../package.json'
import { noticesPath } from '../notices.ts'
import { compileCommand, runTool } from './compile-command.ts'
import { hasValidHashes, signAdHoc } from './mach-o.ts'

const root = resolve(import.meta.dir, '../../..')
/** Modification time of all archived files: the time that npm gives to the files of a package. */
const mtime = new Date('1985-10-26T08:15:00Z')

/** Platforms by Bun's names. The x64 programs need a processor with SSE4.2. */
export const programTargets = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'] as const

/**
 * Compiles the program for a platform, and writes it with its licences to `latchkey-<version>-<target>.tar.gz` in a folder. Bun downloads
 * the runtime of another platform from the npm registry once. Equal sources give an equal archive.
 * @param scratch folder in which the program is left unarchived
 * @throws with the output of Bun
 */
export async function buildProgram(
  target: (typeof programTargets)[number],
  folder: string,
  scratch: string,
): Promise<void> {
  const path = join(scratch, target, 'latchkey')
  mkdirSync(join(scratch, target), { recursive: true })
  const { options, entryPoints } = compileCommand(root)
  const place = [`--target=bun-${target}`, `--outfile=${path}`]
  await runTool([process.execPath, 'build', ...options, ...place, ...entryPoints])
  // Signs the program for x64, in which Bun leaves the signature of the runtime, which no longer matches. Bun signs for arm64 only.
  if (target.startsWith('darwin-')) {
    const program = readFileSync(path)
    if (!hasValidHashes(program)) writeFileSync(path, signAdHoc(program, 'latchkey'))
  }
  const archive = pack()
  archive.entry({ name: 'latchkey', mode: 0o755, mtime }, readFileSync(path))
  for (const name of ['LICENSE', noticesPath])
    archive.entry({ name, mode: 0o644, mtime }, readFileSync(join(root, name)))
  archive.finalize()
  const bytes = gzipSync(await buffer(archive), { level: 6 })
  writeFileSync(join(folder, `latchkey-${version}-${target}.tar.gz`), bytes)
}
