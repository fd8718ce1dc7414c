import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../../..')

/** Exit code and standard error of a script. */
export interface ScriptEnd {
  readonly exitCode: number
  readonly said: string
}

/** Runs a script of this repository with a PATH of the test's programs only. */
export interface ScriptLab {
  /** Creates a folder for PATH with these shell scripts by name. */
  pathWith(programs: Readonly<Record<string, string>>): string
  /** Runs the script with `env` and the PATH as its environment, until it ends. */
  run(path: string, args: readonly string[], env?: Readonly<Record<string, string | undefined>>): ScriptEnd
  /** Removes the created folders. */
  clear(): void
}

/** Writes a shell script into a folder. */
export function writeProgram(folder: string, name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

/** Creates a lab for a script, by its path from the repository's root. */
export function createScriptLab(script: string): ScriptLab {
  const folders: string[] = []
  return {
    pathWith(programs) {
      // Uses a folder outside of the stores' folder, which may be in /dev/shm, and Docker mounts that with noexec.
      const path = realpathSync(mkdtempSync(join(tmpdir(), 'latchkey-programs-')))
      folders.push(path)
      for (const [name, text] of Object.entries(programs)) writeProgram(path, name, text)
      return path
    },
    run(path, args, env = {}) {
      const child = Bun.spawnSync([process.execPath, script, ...args], {
        cwd: root,
        env: { PATH: path, ...env },
      })
      return { exitCode: child.exitCode, said: child.stderr.toString() }
    },
    clear() {
      for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
    },
  }
}
