import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { version } from '../../../package.json'
import { noticesPath } from '../notices.ts'
import { compileCommand } from './compile-command.ts'
import { hasValidHashes, signAdHoc } from './mach-o.ts'
import { runTool } from './run-tool.ts'
import { tarGz } from './tar.ts'

const root = resolve(import.meta.dir, '../../..')

/** Platforms of the compiled program, as Bun names them. Each x64 runs on processors with SSE4.2. */
export const programTargets = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'] as const

/** Platform of a compiled program. */
export type ProgramTarget = (typeof programTargets)[number]

/**
 * Compiles the program for a platform, and writes it with its licences to `latchkey-<version>-<target>.tar.gz` in a folder. Bun fetches the
 * runtime of another platform from the npm registry once. Equal sources give an equal archive. @param scratch folder for the
 * program without archive, which stays there @throws with the output of Bun
 */
export async function buildProgram(target: ProgramTarget, folder: string, scratch: string): Promise<void> {
  const path = join(scratch, target, 'latchkey')
  mkdirSync(join(scratch, target), { recursive: true })
  const { options, entryPoints } = compileCommand(root)
  const place = [`--target=bun-${target}`, `--outfile=${path}`]
  await runTool([process.execPath, 'build', ...options, ...place, ...entryPoints])
  // Bun signs for arm64 only. For x64 it leaves the signature of the runtime, which does not fit any more.
  if (target.startsWith('darwin-')) {
    const program = readFileSync(path)
    if (!hasValidHashes(program)) writeFileSync(path, signAdHoc(program, 'latchkey'))
  }
  const files = [
    { name: 'latchkey', mode: 0o755, bytes: readFileSync(path) },
    ...['LICENSE', noticesPath].map((name) => ({
      name,
      mode: 0o644,
      bytes: readFileSync(join(root, name)),
    })),
  ]
  writeFileSync(join(folder, `latchkey-${version}-${target}.tar.gz`), tarGz(files))
}
