export { type LoopOptions, type Sleep, type SupervisedLoop, sleep, superviseLoop } from './loop.ts'
export { runProcess } from './run.ts'
export type { Scope } from './scope.ts'
