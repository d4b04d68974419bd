/* What lab/ and cli/ use of src/ beyond the public headers is exported under names of its own. */
#ifndef BASE_FOR_LAB_H
#define BASE_FOR_LAB_H

#define FOR_LAB(name) __asm__("attendlab_" #name) __attribute__((visibility("default")))

#endif
