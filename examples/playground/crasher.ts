import { CRASH_POINTS, type CrashPoint, type Faults, type ServiceName } from './settings.ts'
import type { Supervisor } from './supervisor.ts'

const LOOK_MS = 200
/** A process may work this long before it is killed. */
const LIFE_MS = 1_200
const POINTS = Object.keys(CRASH_POINTS) as readonly CrashPoint[]

/** Tells the process again and again to stop at the chosen point. When the process reaches that point, it is killed. */
export class Crasher {
  readonly #services: Readonly<Record<ServiceName, Supervisor>>
  readonly #faults: () => Faults
  readonly #timer: NodeJS.Timeout

  constructor(services: Readonly<Record<ServiceName, Supervisor>>, faults: () => Faults) {
    this.#services = services
    this.#faults = faults
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
  }

  changed(): void {
    for (const service of Object.values(this.#services)) service.disarm()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const { crash } = this.#faults()
    if (crash === 'off') return
    const point = crash === 'anywhere' ? POINTS[Math.floor(Math.random() * POINTS.length)] : crash
    if (!point) return
    const service = this.#services[CRASH_POINTS[point]]
    if (service.hasSpare && service.upForMs > LIFE_MS) service.arm(point)
  }
}
