import { expect } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../processes/dev-server.ts'
import { runToEnd } from './client-scene.ts'

const client = join(root, 'clients/typescript')
const tsc = join(root, 'node_modules/.bin/tsc')

/** Application with the built client library, in the repository, so that it finds the frameworks. */
export interface ClientApplication {
  /** Writes a program and returns its path. */
  write(text: string, extension?: string): string
  /** Checks the types of programs as an application of TypeScript does, except that parameters may have none. */
  expectTypes(programs: readonly string[]): Promise<void>
  remove(): void
}

/** Builds the client library for TypeScript into a new folder of `.latchkey`. */
export async function makeClientApplication(): Promise<ClientApplication> {
  mkdirSync(join(root, '.latchkey'), { recursive: true })
  const folder = mkdtempSync(join(root, '.latchkey', 'readme-'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  const installed = join(folder, 'node_modules/@latchkey/client')
  const build = [tsc, '--project', client, '--outDir', join(installed, 'dist')]
  expect(await runToEnd(build)).toEqual({ exitCode: 0, output: '' })
  for (const file of ['package.json', 'latchkey-outcomes.sql'])
    cpSync(join(client, file), join(installed, file))
  const write = (text: string, extension = 'js') => {
    const path = join(folder, `${crypto.randomUUID()}.${extension}`)
    writeFileSync(path, text)
    return path
  }
  return {
    write,
    async expectTypes(programs) {
      const files = programs.map((text) => write(text, 'ts'))
      const config = join(folder, `tsconfig-${crypto.randomUUID()}.json`)
      const compilerOptions = {
        types: ['node'],
        lib: ['ESNext', 'DOM', 'DOM.Iterable'],
        noImplicitAny: false,
      }
      const rest = { files, include: [], exclude: [] }
      writeFileSync(
        config,
        JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, ...rest }),
      )
      expect(await runToEnd([tsc, '--project', config])).toEqual({ exitCode: 0, output: '' })
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
