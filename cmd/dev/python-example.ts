import { resolve } from 'node:path'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'

// Runs the app `service.py` of a folder with the library of `clients/python`, until a signal ends it: FOLDER PORT
const root = resolve(import.meta.dir, '../..')
const [folder = '', port = ''] = process.argv.slice(2)
const requirements = resolve(root, 'test/clients/python/requirements.txt')
const environment = await ensurePythonEnvironment(requirements, (line) => console.error(`> ${line}`))
const server = ['-m', 'uvicorn', 'service:app', '--host', '127.0.0.1', '--log-level', 'warning']
const child = Bun.spawn([`${environment}/bin/python`, ...server, '--port', port, '--app-dir', folder], {
  cwd: root,
  env: { ...process.env, PYTHONPATH: 'clients/python/src', PYTHONDONTWRITEBYTECODE: '1' },
  stdio: ['ignore', 'inherit', 'inherit'],
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
process.exitCode = await child.exited
