import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')

/**
 * Compiles the program that people install into a folder, by the command of the Dockerfile but for this machine's processor (about
 * 5 s). Returns its path. @throws with the compiler's words
 */
export async function compileProgram(dir: string): Promise<string> {
  const program = join(dir, 'latchkey')
  const child = Bun.spawn([process.execPath, 'build', ...dockerfileOptions(), `--outfile=${program}`], {
    cwd: root,
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const [errors, exitCode] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (exitCode !== 0) throw new Error(`the program does not compile:\n${errors}`)
  return program
}

/** The arguments of `bun build` in the Dockerfile, without those that name a platform or a place. */
function dockerfileOptions(): readonly string[] {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const [, command] = /^ *bun build ((?:.*\\\n)*.*)$/m.exec(dockerfile) ?? []
  if (command === undefined) throw new Error('the Dockerfile has no line that begins with "bun build"')
  const words = command.replaceAll('\\\n', ' ').trim().split(/\s+/)
  return words.filter((word) => !/^--(target|outfile)=/.test(word))
}
