// Built twice with frames of different sizes: the same addresses, other rules.
void call_below(void (*look)(void)) {
  volatile char room[DDPSCOPE_FRAME_BYTES];
  room[0] = 1;
  look();
  room[1] = room[0];
}
